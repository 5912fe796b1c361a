"""What this package declares: the engine MPI and its setting."""

from tinygraft.plugin import Setting
from tinygraft.plugin.ranks import CollectiveSpec

MPI_MPIEXEC = Setting(
    "MPI_MPIEXEC",
    "",
    "the program that `launch` starts ranks with; empty is the mpiexec of this environment or the PATH",
)

SPEC = CollectiveSpec(
    name="mpi",
    summary="MPI, through mpi4py",
    api=(0, 1),
    started="tinygraft_mpi.launching:is_rank",
    probe="tinygraft_mpi.launching:probe",
    transport="tinygraft_mpi.transport:open_transport",
    launcher="tinygraft_mpi.launching:launcher",
    install_hint="pip install 'tinygraft-mpi[mpich]', or an MPI of your system",
    settings={MPI_MPIEXEC.name: MPI_MPIEXEC.doc},
)
