"""plan_many on the engines people run: processes of this machine, MPI, Dask. Speed-up, overhead, and a killed worker.

usage: PYTHONPATH=build/python python3 bench/python/engines.py processes|mpi|dask [OPTIONS]

    --problems DIR    problems in files, as `berth plan` reads them; else made up by seed:
    --count N         so many (10,000)
    --buffers N       with so many buffers each (100), that live for one to eight of as many ticks
    --runs N          of each way, by turns (3); printed are the least and the middle one
    --install         asks Debian for the engine first (as root)

Wanted are python3-mpi4py and openmpi-bin for mpi, python3-distributed for dask. Each way's plans are compared with those
of a loop over solve(). Overhead a problem is what one worker takes longer than that loop, and what all processes together
use of processors beside it: the second means something on a busy machine too, but has workers that wait by spinning (MPI)
in it. Behind the figures a worker is
killed in the middle of a run: engines that live through it go on, MPI does not, and the next run goes on from the journal.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import berth

PACKAGES = {"processes": [], "mpi": ["python3-mpi4py", "openmpi-bin"], "dask": ["python3-distributed"]}
# Two workers on two cores, spawned as root in containers too.
MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}


def problem(seed, buffers):
    make = random.Random(seed)
    p = berth.Problem()
    for _ in range(buffers):
        start = make.randrange(buffers)
        p.add(make.randrange(1, 1000), (start, start + make.randrange(1, 9)))
    return p


def problems_of(options):
    if options.problems is None:
        return [problem(seed, options.buffers) for seed in range(options.count)]
    read = []
    for file in sorted(options.problems.rglob("*")):
        if file.suffix in (".json", ".csv"):
            try:
                read.append(berth.read(file))
            except berth.InputError as error:
                print(f"left out: {error}", file=sys.stderr)
    return read


class Processes:
    def __init__(self, workers):
        self.executor = concurrent.futures.ProcessPoolExecutor(workers)

    def close(self):
        self.executor.shutdown()


class Mpi:
    def __init__(self, workers):
        from mpi4py.futures import MPIPoolExecutor

        self.executor = MPIPoolExecutor(workers)

    def close(self):
        self.executor.shutdown()


class Dask:
    def __init__(self, workers):
        from distributed import Client, LocalCluster

        self.cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
        self.client = Client(self.cluster)
        self.executor = self.client.get_executor()

    def close(self):
        self.client.close()
        self.cluster.close()


ENGINES = {"processes": Processes, "mpi": Mpi, "dask": Dask}


def processor_seconds():
    """Of this process and of all below it."""
    ticks = sum(sum(ticks_of(pid)) for pid in [os.getpid(), *descendants(os.getpid())])
    return ticks / os.sysconf("SC_CLK_TCK")


def timed(way):
    start, busy = time.perf_counter(), processor_seconds()
    plans = way()
    return time.perf_counter() - start, processor_seconds() - busy, [plan.arena for plan in plans]


def measure(engine, problems, runs):
    took, busy = collections.defaultdict(list), collections.defaultdict(list)
    right = timed(lambda: [p.solve() for p in problems])[2]
    engines = {n: engine(n) for n in (1, 2)}
    for each in engines.values():
        berth.plan_many(problems[:64], executor=each.executor)  # the workers are there
    ways = {"a loop over solve()": lambda: [p.solve() for p in problems]}
    for n, each in engines.items():
        ways[f"{n} worker" + "s" * (n > 1)] = lambda each=each: berth.plan_many(problems, executor=each.executor)
    for _ in range(runs):
        for name, way in ways.items():
            seconds, of_processors, arenas = timed(way)
            assert arenas == right, name
            took[name].append(seconds)
            busy[name].append(of_processors)
    for each in engines.values():
        each.close()
    loop, loop_busy = min(took["a loop over solve()"]), min(busy["a loop over solve()"])
    for name, times in took.items():
        over, over_busy = ((least - of) / len(problems) * 1e3
                           for least, of in ((min(times), loop), (min(busy[name]), loop_busy)))
        print(f"{name:20} {min(times):7.3f} s least {statistics.median(times):7.3f} s median {over:+8.4f} ms a problem; "
              f"of processors {min(busy[name]):7.2f} s {over_busy:+8.4f} ms a problem")
    one, two = took["1 worker"], took["2 workers"]
    print(f"2 workers against 1: {min(one) / min(two):.2f} times (least), "
          f"{statistics.median(one) / statistics.median(two):.2f} (median); "
          f"against the loop {loop / min(two):.2f}")
    return right



def workers_of(pid):
    try:
        for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
            yield from (int(child) for child in (thread / "children").read_text().split())
    except OSError:  # it has ended meanwhile
        return


def ticks_of(pid):
    """Of the processor: of the user, of the system."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0, 0
    return int(fields[11]), int(fields[12])


def descendants(pid):
    for child in workers_of(pid):
        yield child
        yield from descendants(child)


def kill_one(done, at, but):
    """Kills a busy worker once `at` problems are answered."""
    while done[0] < at:
        time.sleep(0.001)
    left = [p for p in descendants(os.getpid()) if p not in but and not any(workers_of(p))]
    victim = max(left, key=ticks_of, default=None)
    if victim is None:
        print("they were done before one could be killed")
        return
    os.kill(victim, signal.SIGKILL)
    print(f"worker {victim} was killed once {done[0]} problems were answered")


def with_a_death(engine, problems, right, renews):
    done = [0]
    made = []

    def executor():
        made.append(engine(2))
        return made[-1].executor

    def step(count, total):
        done[0] = count

    there = set(descendants(os.getpid()))
    given = executor if renews else executor()
    killer = threading.Thread(target=kill_one, args=(done, len(problems) // 4, there))
    killer.start()
    start = time.perf_counter()
    plans = berth.plan_many(problems, executor=given, progress=step)
    seconds = time.perf_counter() - start
    killer.join()
    assert [plan.arena for plan in plans] == right
    print(f"with a worker killed: {seconds:.3f} s, {len(plans)} of {len(problems)} plans, executors made: {len(made)}")
    if not renews:
        made[-1].close()


def journal_lines(journal):
    return sum(1 for line in open(journal) if line.strip()) if os.path.exists(journal) else 0


def mpi_with_a_death(options):
    """A killed rank takes the MPI job along: the next job goes on from the journal."""
    with tempfile.TemporaryDirectory() as folder:
        journal = os.path.join(folder, "journal")
        command = [sys.executable, __file__, *sys.argv[1:], "--journal", journal]
        job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while journal_lines(journal) < options.count // 4:
            time.sleep(0.01)
            if job.poll() is not None:
                print("the job was done before a rank could be killed")
                return
        victims = [p for p in descendants(job.pid)
                   if "mpi4py.futures.server" in pathlib.Path(f"/proc/{p}/cmdline").read_text()]
        os.kill(victims[0], signal.SIGKILL)
        try:
            job.wait(timeout=20)
            became = f"ended with {job.returncode}"
        except subprocess.TimeoutExpired:  # MPI's own choice: it waits for ever
            for p in [*descendants(job.pid), job.pid]:
                os.kill(p, signal.SIGKILL)
            job.wait()
            became = "hung, and was killed"
        kept = journal_lines(journal)
        start = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        print(f"with a rank killed: the job {became}, {kept} plans were in the journal; the next job took "
              f"{time.perf_counter() - start:.3f} s with its start, and the journal has {journal_lines(journal)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("--problems", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--buffers", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--journal", help=argparse.SUPPRESS)  # one run and no figures: what is killed
    options = parser.parse_args()
    if options.install and PACKAGES[options.engine]:
        subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES[options.engine]], check=True)
    os.environ.update(MPI)
    engine = ENGINES[options.engine]
    problems = problems_of(options)
    options.count = len(problems)
    if options.journal:
        running = engine(2)
        berth.plan_many(problems, executor=running.executor, journal=options.journal)
        running.close()
        return
    print(f"{options.engine}: {len(problems)} problems, {sum(map(len, problems))} buffers, {os.cpu_count()} cores, "
          f"berth {berth.__version__}, {time.strftime('%Y-%m-%d')}")
    right = measure(engine, problems, options.runs)
    if options.engine == "mpi":
        mpi_with_a_death(options)
    else:
        with_a_death(engine, problems, right, renews=options.engine == "processes")


if __name__ == "__main__":
    main()
