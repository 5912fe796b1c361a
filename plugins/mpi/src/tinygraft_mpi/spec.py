"""What this package declares: the engine MPI and its setting."""

from tinygraft.plugin import Setting
from tinygraft.plugin.ranks import CollectiveSpec

MPI_MPIEXEC = Setting(
    "MPI_MPIEXEC",
    "",
    "the program that `launch` starts ranks with; empty is the mpiexec of this environment or the PATH",
)

MPI_CUDA_AWARE = Setting(
    "MPI_CUDA_AWARE",
    False,
    "whether MPI is given the memory of CUDA cards itself, which it has to be built for; 0 copies by the host",
)

SPEC = CollectiveSpec(
    name="mpi",
    summary="MPI, through mpi4py",
    api=(0, 3),
    started="tinygraft_mpi.launching:is_rank",
    probe="tinygraft_mpi.launching:probe",
    transport="tinygraft_mpi.transport:open_transport",
    launcher="tinygraft_mpi.launching:launcher",
    ended="tinygraft_mpi.launching:remove_left_memory",
    install_hint="pip install 'tinygraft-mpi[mpich]', or an MPI of your system",
    settings={setting.name: setting.doc for setting in (MPI_MPIEXEC, MPI_CUDA_AWARE)},
)
