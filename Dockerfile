# tinygraft with the CPU and OpenCL devices, from this checkout: docker build -t tinygraft . && docker run -it tinygraft
# Not built on the machines where tinygraft is made, which have no Docker; the same commands run there without it.
FROM python:3.12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /checkout
COPY . .
RUN pip install --no-cache-dir build && python .ci/build_wheels.py /wheels

FROM python:3.12-slim
# gcc and binutils: DEV=CPU needs neither, DEV=C and OpenCL on a processor compile and link by them.
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev binutils && rm -rf /var/lib/apt/lists/*
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --find-links /wheels "tinygraft[cpu,opencl]" "tinygraft-opencl[intel]" && rm -rf /wheels
RUN useradd --create-home user
USER user
WORKDIR /home/user
COPY examples examples
RUN python -m tinygraft doctor CPU
CMD ["python", "-i", "-c", "from tinygraft import Tensor; print('from tinygraft import Tensor')"]
