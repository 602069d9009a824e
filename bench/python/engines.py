"""Many problems on the engines people run: processes of this machine, MPI, Dask, Slurm. Speed-up, overhead, a killed worker.

usage: PYTHONPATH=build/python python3 bench/python/engines.py threads|processes|mpi|dask|slurm [OPTIONS]

    --problems DIR    problems in files, as `berth plan` reads them; else made up by seed:
    --count N         so many (10,000)
    --buffers N       with so many buffers each (100), that live for one to eight of as many ticks
    --workers LIST    how many work at once, from 1 on (1,2,4)
    --runs N          of each, by turns (3); printed are the middle one, and the least and the most in brackets
    --install         asks Debian for the engine first (as root)
    --stream N        instead: plan_stream over a generator that makes N problems of 100 buffers as they are read. Printed are
                      the user time a problem, which a busy machine hardly changes, and the peak memory of a process
    --berth FILE      the tool that Slurm's tasks run (build/bin/berth)

Wanted are python3-mpi4py and openmpi-bin for mpi, python3-distributed for dask, and for slurm the packages of
one_node_slurm.py, which starts it without systemd. All but Slurm run plan_many; Slurm runs `berth plan DIR --shard I/N`
as an array job. Every plan is compared with that of a loop over solve().

A busy machine makes every figure of one run wrong, so each has its measure beside it, taken in turn with it: `ideal` is
what N copies of the same solves without any engine, side by side, get done more than one copy (2.00 where two processors
are free). `speed-up` is N workers against one, and `of the ideal` both divided, times N. Overhead a problem is what the
processors of all processes together did beyond one such copy: MPI's waiting, which spins, is in it.

Behind the figures a worker is killed in the middle of a run: engines that live through it go on; where they do not, and with
Slurm, the next run does what is left.
"""

import argparse
import array
import concurrent.futures
import contextlib
import json
import multiprocessing
import os
import pathlib
import random
import resource
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import berth
import one_node_slurm

PACKAGES = {"threads": [], "processes": [], "mpi": ["python3-mpi4py", "openmpi-bin"], "dask": ["python3-distributed"],
            "slurm": one_node_slurm.PACKAGES}
# Two workers on two cores, spawned as root in containers too.
MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}


def made_up(seed, buffers):
    """Rows of lower, upper, size."""
    make = random.Random(seed)
    for _ in range(buffers):
        start = make.randrange(buffers)
        yield start, start + make.randrange(1, 9), make.randrange(1, 1000)


def folder_of(options, folder):
    """The problems as files in a folder: links to those that can be read, or made up."""
    if options.problems is None:
        for seed in range(options.count):
            rows = [f"{i},{','.join(map(str, row))}" for i, row in enumerate(made_up(seed, options.buffers))]
            (folder / f"{seed:07}.csv").write_text("\n".join(["id,lower,upper,size", *rows]) + "\n")
        return
    for i, file in enumerate(sorted(options.problems.rglob("*"))):
        if file.suffix in (".json", ".csv"):
            try:
                berth.read(file)
            except berth.InputError as error:
                print(f"left out: {error}", file=sys.stderr)
                continue
            (folder / f"{i:07}-{file.name}").symlink_to(file.resolve())


class Processes:
    def __init__(self, workers):
        self.executor = concurrent.futures.ProcessPoolExecutor(workers)

    def close(self):
        self.executor.shutdown()


class Threads:
    def __init__(self, workers):
        self.executor = concurrent.futures.ThreadPoolExecutor(workers)

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


ENGINES = {"threads": Threads, "processes": Processes, "mpi": Mpi, "dask": Dask}


def processor_seconds():
    """Of this process and of all below it."""
    ticks = sum(sum(ticks_of(pid)) for pid in [os.getpid(), *descendants(os.getpid())])
    return ticks / os.sysconf("SC_CLK_TCK")


def tool_for(folder, out, shard, options):
    return [str(options.berth), "plan", str(folder), "--shard", shard, "--out", str(out), "--quiet"]


class Copies:
    """Processes that wait, and then each solve all problems, side by side and without an engine."""

    def __init__(self, most, solve):
        self.pipes = []
        for _ in range(most):
            ours, theirs = multiprocessing.Pipe()
            multiprocessing.get_context("fork").Process(target=self.run, args=(theirs, solve), daemon=True).start()
            self.pipes.append(ours)

    @staticmethod
    def run(pipe, solve):
        while (batch := pipe.recv()) is not None:
            start, busy = time.perf_counter(), sum(os.times()[:4])
            solve(batch)
            pipe.send((time.perf_counter() - start, sum(os.times()[:4]) - busy))

    def seconds(self, n, batch=0):
        """The mean of n at once, by the clock and of the processor."""
        for pipe in self.pipes[:n]:
            pipe.send(batch)
        took = [pipe.recv() for pipe in self.pipes[:n]]
        return [statistics.mean(column) for column in zip(*took)]

    def close(self):
        for pipe in self.pipes:
            pipe.send(None)


def spread(values, form):
    return f"{form.format(statistics.median(values))} ({form.format(min(values))} to {form.format(max(values))})"


def report(workers, engine, alone, count):
    """`engine` and `alone`: by number of workers, a run each: seconds by the clock, and of processors."""
    for n in workers:
        speed_up = [one[0] / many[0] for one, many in zip(engine[1], engine[n])]
        ideal = [n * one[0] / many[0] for one, many in zip(alone[1], alone[n])]
        of_ideal = [n * s / i for s, i in zip(speed_up, ideal)]
        over = [(e[1] - a[1]) / count * 1e3 for e, a in zip(engine[n], alone[1])]
        print(f"{n} worker{'s' * (n > 1):1}  {spread([e[0] for e in engine[n]], '{:.2f}')} s; speed-up {spread(speed_up, '{:.2f}')}, "
              f"ideal {spread(ideal, '{:.2f}')}; of the ideal {spread(of_ideal, '{:.2f}')} of {n}; "
              f"overhead {spread(over, '{:+.3f}')} ms a problem")


def measure(engine, problems, right, options):
    """In batches of some 2,000, so that what is compared is close together in time."""
    step = -(-len(problems) // max(1, len(problems) // 2000))
    batches = [slice(at, at + step) for at in range(0, len(problems), step)]
    copies = Copies(max(options.workers), lambda batch: [p.solve() for p in problems[batches[batch]]])
    took = {n: [] for n in options.workers}
    alone = {n: [] for n in options.workers}
    for _ in range(options.runs):
        for number, batch in enumerate(batches):
            for n in options.workers:
                running = engine(n)
                berth.plan_many(problems[:64], executor=running.executor)  # the workers are there
                start, busy = time.perf_counter(), processor_seconds()
                plans = berth.plan_many(problems[batch], executor=running.executor)
                took[n].append((time.perf_counter() - start, processor_seconds() - busy))
                assert [plan.arena for plan in plans] == right[batch]
                running.close()
                alone[n].append(copies.seconds(n, number))
    copies.close()
    print(f"{options.runs} times {len(batches)} batches of {step}")
    report(options.workers, took, alone, step)


def most_resident(pid):
    """The peak memory of a process in MB."""
    try:
        return int(pathlib.Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0]) / 1e3
    except (OSError, IndexError):
        return 0.0


def stream(engine, workers, count):
    columns = [[array.array("q", column) for column in zip(*made_up(seed, 100))] for seed in range(500)]

    def source():
        for i in range(count):
            lower, upper, sizes = columns[i % 500]
            yield berth.Problem.from_arrays([size + i // 500 for size in sizes], lower, upper)

    busy = time.process_time()
    for _ in source():
        pass
    made = time.process_time() - busy
    running = engine(workers)
    berth.plan_many([berth.Problem.from_arrays([1], [0], [1])] * 64, executor=running.executor)  # the workers are there
    pids = [os.getpid(), *descendants(os.getpid())]
    ticks = sum(ticks_of(pid)[0] for pid in pids)
    start = time.perf_counter()
    for _, plan in berth.plan_stream(source(), executor=running.executor):
        assert isinstance(plan, berth.Plan), plan
    clock = time.perf_counter() - start
    pids = [os.getpid(), *descendants(os.getpid())]
    user = (sum(ticks_of(pid)[0] for pid in pids) - ticks) / os.sysconf("SC_CLK_TCK")
    print(f"{workers} workers, {count} problems: {clock / count * 1e6:.0f} us by the clock, {user / count * 1e6:.0f} us of user time a "
          f"problem (the source's {made / count * 1e6:.0f}); peak {most_resident(pids[0]):.0f} MB here, "
          f"{max(map(most_resident, pids[1:]), default=0):.0f} MB in a worker; load {os.getloadavg()[0]:.0f}")
    running.close()


def lines_in(out):
    lines = [line for file in sorted(out.glob("*.jsonl")) for line in file.read_text().split("\n")]
    whole = []
    for line in lines:
        with contextlib.suppress(ValueError):
            whole.append(json.loads(line))
    return whole


def require_all(out, right):
    """Every problem has one line, with the plan that it should have; one without a plan has no arena."""
    found = sorted(lines_in(out), key=lambda line: line["file"])
    assert [line["plan"]["arena_bytes"] or 0 for line in found] == right, f"{len(found)} lines for {len(right)} problems"


def slurm(folder, right, options):
    """As measure() and with_a_death(): an array job of N tasks, beside N copies of the tool without Slurm."""
    with tempfile.TemporaryDirectory() as held, one_node_slurm.Cluster(max(options.workers)) as cluster:
        held = pathlib.Path(held)
        fresh = iter(held / str(i) for i in range(1000000))

        def solve(_):
            out = held / f"copy-{os.getpid()}-{time.monotonic_ns()}"
            if subprocess.run(tool_for(folder, out, "1/1", options)).returncode > 1:  # 1: some have no plan, which is an answer
                raise RuntimeError("the tool failed")

        def command(n, out):
            words = " ".join(map(shlex.quote, tool_for(folder, out, f"@/{n}", options))).replace("@", "$0")
            return f"sh -c 'echo $$ >{held}/pid.$0; exec {words}' $SLURM_ARRAY_TASK_ID"

        copies = Copies(max(options.workers), solve)
        took = {n: [] for n in options.workers}
        alone = {n: [] for n in options.workers}
        waited = []
        for _ in range(options.runs):
            for n in options.workers:
                out = next(fresh)
                seconds, whole = cluster.array(n, f"{command(n, out)}; times >{held}/times.$SLURM_ARRAY_TASK_ID")
                took[n].append((seconds, sum(processor_of(held / f"times.{i + 1}") for i in range(n))))
                waited.append(whole - seconds)
                require_all(out, right)
                alone[n].append(copies.seconds(n))
        copies.close()
        report(options.workers, took, alone, len(right))
        print(f"from the submission to the first task, and from the last one to the queue's answer: {spread(waited, '{:.2f}')} s a job")
        out = next(fresh)
        (held / "pid.1").unlink()
        job = cluster.submit(2, command(2, out))
        first = out / "shard-1-of-2.jsonl"
        while not first.exists() or first.read_bytes().count(b"\n") < len(right) // 8:
            time.sleep(0.005)
        try:
            os.kill(int((held / "pid.1").read_text()), signal.SIGKILL)
        except ProcessLookupError:
            print("the task was done before it could be killed")
        cluster.wait(job)
        kept = len(lines_in(out))
        seconds, _ = cluster.array(2, command(2, out))
        require_all(out, right)
        print(f"with a task killed: {kept} of {len(right)} plans were there at the array's end, which nothing of it lost; the same "
              f"array again took {seconds:.2f} s and made the others")


def processor_of(times):
    """Of what the shell's `times` says of its children: the second line, 0m1.5s 0m0.2s."""
    return sum(60 * float(part.split("m")[0]) + float(part.split("m")[1].rstrip("s"))
               for part in times.read_text().split("\n")[1].split())


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
    parser.add_argument("engine", choices=PACKAGES)
    parser.add_argument("--problems", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--buffers", type=int, default=100)
    parser.add_argument("--workers", type=lambda text: [int(n) for n in text.split(",")], default=[1, 2, 4])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--stream", type=int)
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--berth", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2] / "build/bin/berth")
    parser.add_argument("--journal", help=argparse.SUPPRESS)  # one run and no figures: what is killed
    options = parser.parse_args()
    if 1 not in options.workers:
        parser.error("--workers: one is what the others are compared with")
    if options.install and PACKAGES[options.engine]:
        subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES[options.engine]], check=True)
    os.environ.update(MPI)
    if options.stream:
        for n in options.workers:
            stream(ENGINES[options.engine], n, options.stream)
        return
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        folder_of(options, folder)
        problems = [berth.read(file) for file in sorted(folder.iterdir())]
        options.count = len(problems)
        if options.journal:
            running = ENGINES[options.engine](2)
            berth.plan_many(problems, executor=running.executor, journal=options.journal)
            running.close()
            return
        print(f"{options.engine}: {len(problems)} problems, {sum(map(len, problems))} buffers, {os.cpu_count()} processors, load "
              f"{os.getloadavg()[0]:.1f}, berth {berth.__version__}, {time.strftime('%Y-%m-%d')}")
        right = [p.solve().arena for p in problems]
        if options.engine == "slurm":
            slurm(folder, right, options)
            return
        engine = ENGINES[options.engine]
        measure(engine, problems, right, options)
        if options.engine == "threads":
            return  # they die with this process
        if options.engine == "mpi":
            mpi_with_a_death(options)
        else:
            with_a_death(engine, problems, right, renews=options.engine == "processes")


if __name__ == "__main__":
    main()
