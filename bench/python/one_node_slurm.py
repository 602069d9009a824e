"""Slurm on this machine alone, for as long as a `with` lasts: munged, slurmctld and slurmd as plain processes with a key
and a configuration of their own in a temporary folder. Nothing of a Slurm that is installed is read or changed.

    with one_node_slurm.Cluster(processors=4) as cluster:
        seconds = cluster.array(2, "my-program --shard $SLURM_ARRAY_TASK_ID/2")

Wanted are Debian's slurmctld, slurmd, slurm-client and munge (`PACKAGES`), and root, as slurmd does.
"""

import os
import pathlib
import socket
import subprocess
import tempfile
import time

PACKAGES = ["slurmctld", "slurmd", "slurm-client", "munge"]

CONFIGURATION = """\
ClusterName=berth
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SlurmdParameters=config_overrides
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={processors} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def free_ports(count):
    taken = [socket.socket() for _ in range(count)]
    try:
        for each in taken:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in taken]
    finally:
        for each in taken:
            each.close()


class Cluster:
    def __init__(self, processors):
        self.processors = processors
        self.daemons = []

    def __enter__(self):
        self.held = tempfile.TemporaryDirectory(prefix="berth-slurm-")
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(timeout=20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self.held.cleanup()

    def start(self):
        self.folder = pathlib.Path(self.held.name)
        self.folder.chmod(0o711)  # munged wants its socket to be reached
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        key = self.folder / "key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
        controller_port, node_port = free_ports(2)
        host = socket.gethostname()
        configuration = self.folder / "slurm.conf"
        configuration.write_text(CONFIGURATION.format(host=host, controller_port=controller_port, node_port=node_port,
                                                      folder=self.folder, processors=self.processors))
        self.environment = {**os.environ, "SLURM_CONF": str(configuration)}
        files = [f"--{name}-file={self.folder}/munged.{name}" for name in ("pid", "log", "seed")]
        self.daemon("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.folder}/munge.socket", *files)
        self.wait_for("munged", (self.folder / "munge.socket").exists)
        self.daemon("slurmctld", "-D", "-f", configuration)
        self.daemon("slurmd", "-D", "-f", configuration, "-N", host)
        self.wait_for("slurmd", lambda: self.ask("sinfo", "-h", "-o", "%T").strip() == "idle")

    def daemon(self, *command):
        with open(self.folder / f"{command[0]}.out", "w") as out:
            self.daemons.append(subprocess.Popen(command, env=self.environment, stdout=out, stderr=subprocess.STDOUT))

    def wait_for(self, name, ready):
        deadline = time.monotonic() + 60
        while not ready():
            dead = [d.args[0] for d in self.daemons if d.poll() is not None]
            if dead or time.monotonic() > deadline:
                said = (self.folder / f"{(dead or [name])[0]}.out").read_text()
                raise RuntimeError(f"{(dead or [name])[0]} does not start:\n{said}")
            time.sleep(0.05)

    def ask(self, *command):
        return subprocess.run(command, env=self.environment, capture_output=True, text=True).stdout

    def submit(self, tasks, command):
        """An array job; its number. Each task notes when its command began and ended."""
        stamps = self.folder / "stamps"
        stamps.mkdir(exist_ok=True)
        script = (f"#!/bin/sh\ndate +%s.%N >{stamps}/begin.$SLURM_ARRAY_TASK_ID\n{command}\nstatus=$?\n"
                  f"date +%s.%N >{stamps}/end.$SLURM_ARRAY_TASK_ID\nexit $status\n")
        done = subprocess.run(["sbatch", "--parsable", f"--array=1-{tasks}", "--export=ALL", "--output=/dev/null"],
                              input=script, env=self.environment, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def wait(self, job):
        while self.ask("squeue", "-h", "-j", job, "-o", "%T").strip():
            time.sleep(0.05)

    def array(self, tasks, command):
        """Runs it to its end: seconds from the first task's begin to the last one's end, and from the submission on."""
        start = time.monotonic()
        self.wait(self.submit(tasks, command))
        whole = time.monotonic() - start
        stamps = {which: [float((self.folder / "stamps" / f"{which}.{i + 1}").read_text()) for i in range(tasks)]
                  for which in ("begin", "end")}
        return max(stamps["end"]) - min(stamps["begin"]), whole
