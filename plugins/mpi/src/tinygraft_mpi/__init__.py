"""The MPI engine of tinygraft's collectives: ranks that mpirun, srun or `python -m tinygraft launch` starts."""
