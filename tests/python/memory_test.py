"""Memory for Python: pools, arenas, DLPack in both its forms, numpy's arrays in a pool. The oracle is numpy's memory."""

import contextvars
import ctypes
import gc
import os
import random
import subprocess
import sys
import threading
import unittest

import numpy

import berth

REQUESTED = {"max_version": (1, 0)}


def live(pool):
    gc.collect()
    return pool.statistics()["live_blocks"]


def capsule_name(capsule):
    get = ctypes.pythonapi.PyCapsule_GetName
    get.restype, get.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return get(capsule).decode()


class Numbered(ctypes.Structure):
    """DLManagedTensorVersioned up to its device, by the standard's own words."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("data", ctypes.c_void_p),
        ("device_kind", ctypes.c_int32),
    ]


def numbered(capsule):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return Numbered.from_address(get(capsule, b"dltensor_versioned"))


def takes_view(exporter, flags):
    """Whether a buffer is given that is asked for so."""
    view = ctypes.create_string_buffer(256)  # a Py_buffer, which is smaller
    try:
        ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(exporter), view, ctypes.c_int(flags))
    except (BufferError, ValueError):  # numpy's
        return False
    ctypes.pythonapi.PyBuffer_Release(view)
    return True


class Tensors(unittest.TestCase):
    def setUp(self):
        self.pool = berth.Pool()

    def test_numpy_shares_the_bytes_and_keeps_them(self):
        t = self.pool.allocate((3, 4), dtype="float32")
        self.assertEqual((t.shape, t.dtype, t.nbytes, t.readonly), ((3, 4), "float32", 48, False))
        a = numpy.asarray(t)
        a[:] = numpy.arange(12).reshape(3, 4)
        b = numpy.from_dlpack(t)
        self.assertEqual((a.ctypes.data, b.ctypes.data), (t.address, t.address))
        self.assertEqual((b.dtype, b.shape, b[2, 3]), (numpy.float32, (3, 4), 11))
        del t, a
        self.assertEqual(live(self.pool), 1)
        self.assertEqual(b.sum(), 66)
        del b
        self.assertEqual(live(self.pool), 0)

    def test_a_shape_may_be_whatever_gives_numbers_once(self):
        for shape in ((2, 3), [2, 3], iter([2, 3]), (n for n in (2, 3)), map(int, "23")):
            t = self.pool.allocate(shape, dtype="float32")
            self.assertEqual((t.shape, t.nbytes), ((2, 3), 24))
        p = berth.Problem()
        p.add(24, (0, 1), id="x")
        arena = self.pool.arena(p.solve())
        self.assertEqual(arena.tensor("x", dtype="float32", shape=iter([2, 3])).shape, (2, 3))
        with self.assertRaises(TypeError):
            self.pool.allocate(None)

    def test_a_type_is_asked_for_its_name_once(self):
        class Changing:
            names = ["uint8", "float64"]

            @property
            def name(self):
                return self.names.pop(0)

        t = self.pool.allocate(8, dtype=Changing())
        self.assertEqual((t.dtype, t.nbytes), ("uint8", 8))

    def test_every_type_is_numpys(self):
        for name in "uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 complex64 complex128".split():
            t = self.pool.allocate(5, dtype=getattr(numpy, name))
            self.assertEqual(t.dtype, name)
            self.assertEqual(numpy.asarray(t).dtype, numpy.dtype(name))
            self.assertEqual(numpy.from_dlpack(t).dtype, numpy.dtype(name))
            self.assertEqual(berth.from_dlpack(numpy.ones(5, name)).dtype, name)
        self.assertEqual(numpy.asarray(self.pool.allocate(5, dtype="bool")).dtype, numpy.dtype("bool"))
        with self.assertRaises(BufferError):
            memoryview(self.pool.allocate(5, dtype="bfloat16"))
        self.assertEqual(berth.from_dlpack(self.pool.allocate(5, dtype="bfloat16")).nbytes, 10)

    def test_anothers_array_is_shared_and_kept_with_its_strides(self):
        make = random.Random(7)
        for _ in range(200):
            shape = tuple(make.randrange(0, 5) for _ in range(make.randrange(0, 4)))
            base = numpy.arange(numpy.prod(shape, dtype=int) * 8, dtype=numpy.int32).reshape((*shape, 8))
            a = base[..., make.randrange(8)].transpose(make.sample(range(len(shape)), len(shape)))
            t = berth.from_dlpack(a)
            self.assertEqual((t.shape, t.address), (a.shape, a.ctypes.data))
            again = numpy.asarray(t)
            numpy.testing.assert_array_equal(again, a)
            numpy.testing.assert_array_equal(numpy.from_dlpack(t), a)
            again += 1  # the same bytes
            del base, t
            numpy.testing.assert_array_equal(again, a)

    def test_what_nobody_takes_goes_with_its_capsule(self):
        for asked in ({}, REQUESTED):
            t = self.pool.allocate(100)
            capsule = t.__dlpack__(**asked)
            del t
            self.assertEqual(live(self.pool), 1)
            del capsule
            self.assertEqual(live(self.pool), 0)

    def test_the_form_with_a_version(self):
        t = self.pool.allocate((2, 3), dtype="int16")
        numpy.asarray(t)[:] = 5
        for given, flags in ((t, 0), (t.as_readonly(), 1)):
            capsule = given.__dlpack__(**REQUESTED)
            self.assertEqual(capsule_name(capsule), "dltensor_versioned")
            head = numbered(capsule)
            self.assertEqual((head.major, head.flags), (1, flags))
            back = berth.from_dlpack(capsule)
            self.assertEqual(capsule_name(capsule), "used_dltensor_versioned")
            self.assertEqual((back.readonly, back.shape, back.address), (bool(flags), (2, 3), t.address))
            with self.assertRaises(BufferError):
                berth.from_dlpack(capsule)  # once only
        capsule = t.__dlpack__(max_version=(0, 8))
        self.assertEqual(capsule_name(capsule), "dltensor")
        capsule = t.__dlpack__(**REQUESTED)
        numbered(capsule).major = 2
        with self.assertRaises(BufferError):
            berth.from_dlpack(capsule)
        self.assertEqual(capsule_name(capsule), "dltensor_versioned")  # whose it still is
        for no_device in (0, -1):
            capsule = t.__dlpack__(**REQUESTED)
            numbered(capsule).device_kind = no_device
            with self.assertRaises(BufferError):
                berth.from_dlpack(capsule)
            self.assertEqual(capsule_name(capsule), "dltensor_versioned")
        del capsule, t, given, back
        self.assertEqual(live(self.pool), 0)

    def test_read_only_is_said_or_refused(self):
        t = self.pool.allocate(8).as_readonly()
        self.assertFalse(numpy.asarray(t).flags.writeable)
        with self.assertRaises(BufferError):
            t.__dlpack__()  # which could not say it
        with self.assertRaises(berth.InputError):
            t.copy_from(self.pool.allocate(8))

    def test_the_order_of_items_that_a_buffer_is_asked_for(self):
        rows, columns, any_order, strides = 0x38, 0x58, 0x98, 0x18  # PyBUF_C_CONTIGUOUS, F_, ANY_, STRIDES
        a = numpy.zeros((4, 6), numpy.float32)
        for given in (a, a.T, a[:, ::2], a[::2], a[:, 0], a[:1], a[:, :1], a[0], a[:0], a[:, 0:0], a.reshape(2, 3, 4).T):
            t = berth.from_dlpack(given)
            for flags in (0, 0x08, rows, columns, any_order, strides):
                self.assertEqual(takes_view(t, flags), takes_view(given, flags), (given.shape, given.strides, hex(flags)))

    def test_no_items_of_lengths_that_would_be_too_many(self):
        t = self.pool.allocate((0, 1 << 62, 4))
        self.assertEqual((t.nbytes, memoryview(t).strides), (0, (1, 1, 1)))
        t.copy_from(self.pool.allocate((0, 1 << 62, 4)))

    def test_streams_and_devices_of_the_protocol(self):
        t = self.pool.allocate(8)
        self.assertEqual(t.__dlpack_device__(), (1, 0))
        t.__dlpack__(stream=None, dl_device=(1, 0), copy=False)
        for wrong in ({"stream": 1}, {"stream": -1}, {"dl_device": (2, 0)}, {"copy": True}):
            with self.assertRaises(BufferError):
                t.__dlpack__(**wrong)
        self.assertFalse(hasattr(t, "__cuda_array_interface__"))

    def test_what_a_stream_still_writes_is_waited_for(self):
        stream = self.pool.stream()
        source = berth.from_dlpack(numpy.full(1 << 22, 7, numpy.uint8))
        one, two = (self.pool.allocate(1 << 22, stream=stream) for _ in range(2))
        for _ in range(20):
            one.copy_from(source)
            two.copy_from(one)  # enqueued: both are the stream's
            del one  # and may be reused behind that copy
            self.assertEqual(int(numpy.from_dlpack(two).min()), 7)
            numpy.asarray(two)[:] = 0
            one = self.pool.allocate(1 << 22, stream=stream)
        stream.synchronize()
        self.assertTrue(stream.query())

    def test_memory_that_no_array_library_reaches_is_refused(self):
        t = berth.Pool("null").allocate(8)
        for ask in (t.__dlpack__, t.__dlpack_device__, lambda: memoryview(t)):
            with self.assertRaises(BufferError):
                ask()

    def test_copies_between_devices_are_refused(self):
        with self.assertRaisesRegex(berth.InputError, "from another device"):
            berth.Pool("null").allocate(8).copy_from(berth.Pool("null:1GiB").allocate(8))
        t = berth.Pool("null").allocate(8)
        t.copy_from(self.pool.allocate(8))  # one side may be the host
        self.pool.allocate(8).copy_from(t)
        try:
            opencl = berth.Pool("opencl:0")
        except (berth.InputError, RuntimeError):
            self.skipTest("no OpenCL")
        with self.assertRaisesRegex(berth.InputError, "from another device"):
            opencl.allocate(8).copy_from(t)
        one, two = opencl.allocate(8), berth.Pool("opencl:0").allocate(8)
        one.copy_from(berth.from_dlpack(numpy.full(8, 7, numpy.uint8)))
        two.copy_from(one)
        back = self.pool.allocate(8)
        back.copy_from(two)
        self.assertEqual(bytes(memoryview(back)), b"\7" * 8)

    def test_wrong_arguments(self):
        for wrong in (
            lambda: berth.Pool("toaster"),
            lambda: self.pool.allocate(-1),
            lambda: self.pool.allocate((1 << 40, 1 << 40)),
            lambda: self.pool.allocate(8, dtype="float128"),
            lambda: self.pool.allocate(8, dtype=object()),
            lambda: self.pool.allocate([1] * 65),
            lambda: self.pool.allocate(8, stream=berth.Pool().stream()),
            lambda: self.pool.allocate(8).copy_from(self.pool.allocate(9)),
            lambda: berth.from_dlpack(numpy.zeros(8)).copy_from(self.pool.allocate(64)),
            lambda: berth.from_dlpack(numpy.zeros(8)).copy_from(berth.from_dlpack(numpy.ones(8))),
            lambda: self.pool.allocate(8, dtype="float64").copy_from(berth.from_dlpack(numpy.zeros(16)[::2])),
        ):
            with self.assertRaises(berth.InputError):
                wrong()
        for wrong in (lambda: self.pool.allocate(1.5), lambda: self.pool.allocate("8")):
            with self.assertRaises(TypeError):
                wrong()
        with self.assertRaises(BufferError):
            berth.from_dlpack(Strange())
        with self.assertRaises(AttributeError):
            berth.from_dlpack(8)
        with self.assertRaises(MemoryError):
            berth.Pool(limit=1 << 20).allocate(1 << 21)
        self.assertEqual(self.pool.allocate(0).nbytes, 0)
        self.assertEqual(numpy.asarray(self.pool.allocate((0, 3))).shape, (0, 3))

    def test_the_last_holder_may_be_on_any_thread(self):
        def hold(ts):
            for t in ts:
                numpy.from_dlpack(t)[:1].sum()

        for _ in range(20):
            threads = [threading.Thread(target=hold, args=([self.pool.allocate(64) for _ in range(20)],)) for _ in range(4)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
        del threads, t
        self.assertEqual(live(self.pool), 0)


class Strange:
    """Gives what is no capsule."""

    def __dlpack__(self, **words):
        return 8


class Arenas(unittest.TestCase):
    def test_buffers_lie_where_the_plan_says(self):
        p = berth.Problem(alignment=64)
        x = p.add(400, (0, 2), id="x")
        y = p.add(800, (1, 3), id="y", alignment=4096)
        p.add(400, (2, 4), id="z")
        plan = p.solve()
        pool = berth.Pool()
        arena = pool.arena(plan)
        self.assertEqual((len(arena), arena.nbytes), (3, plan.arena))
        base = arena.tensor(x).address - plan.offsets[x]
        self.assertEqual(base % 4096, 0)
        for i, name in enumerate(p.ids):
            self.assertEqual(arena.tensor(name).address, base + plan.offsets[i])
        self.assertEqual(arena.tensor(y, dtype="float32").shape, (200,))
        a = numpy.asarray(arena.tensor("y", dtype=numpy.float32, shape=(10, 20)))
        del arena
        a[:] = 1
        self.assertEqual(live(pool), 1)
        self.assertEqual(a.sum(), 200)
        del a
        self.assertEqual(live(pool), 0)

    def test_wrong_arguments(self):
        p = berth.Problem(capacity=8)
        p.add(8, (0, 1), id="x")
        arena = berth.Pool().arena(p.solve())
        with self.assertRaises(berth.InputError):
            arena.tensor("x", dtype="float32", shape=3)
        with self.assertRaises(KeyError):
            arena.tensor("y")
        for i in (1, -1):
            with self.assertRaises(IndexError):
                arena.tensor(i)
        p.add(8, (0, 1))
        with self.assertRaises(berth.InputError):
            berth.Pool().arena(p.solve())  # does not fit
        odd = berth.Problem(alignment=48)
        odd.add(8, (0, 1))
        with self.assertRaises(berth.InputError):
            berth.Pool().arena(odd.solve())
        several = berth.Problem()
        several.add_pool("a")
        several.add(8, (0, 1))
        with self.assertRaises(berth.InputError):
            berth.Pool().arena(several.solve())


class ArraysInPools(unittest.TestCase):
    def test_arrays_lie_in_the_pool_for_as_long_as_they_live(self):
        pool = berth.Pool()
        with pool.for_numpy():
            a = numpy.arange(10000, dtype=float)
            z = numpy.zeros((100, 100))
        outside = numpy.ones(10000)
        self.assertEqual(live(pool), 2)
        self.assertEqual((a.sum(), z.sum()), (49995000, 0))
        view = a[10:20]
        del a, z, outside
        self.assertEqual(live(pool), 1)
        at_a_time = pool.statistics()
        del pool
        self.assertEqual(view.sum(), 145)  # whose pool it keeps
        self.assertEqual(at_a_time["failures"], 0)

    def test_recycled_memory_is_zeroed_where_it_is_to_be(self):
        with berth.Pool().for_numpy():
            for size in (1, 100, 5000, 1 << 20):
                numpy.full(size, 255, numpy.uint8)
                self.assertEqual(int(numpy.zeros(size, numpy.uint8).max()), 0)

    def test_bytes_that_a_stream_still_writes_are_not_given(self):
        size = 64 << 20
        source = berth.from_dlpack(numpy.full(size, 7, numpy.uint8))

        def enlarged():
            x = numpy.zeros(100, numpy.uint8)
            x.resize(size, refcheck=False)
            return x

        for make, limit in (
            (lambda: numpy.zeros(size, numpy.uint8), None),
            (lambda: numpy.full(size, 0, numpy.uint8), None),
            (enlarged, None),
            (lambda: numpy.zeros(size, numpy.uint8), 2 * size + (8 << 20)),  # which has no room but b's, once that is done
        ):
            pool = berth.Pool(limit=limit)
            a, b, last = pool.allocate(size), pool.allocate(size), pool.allocate(1)
            a.copy_from(source)
            b.copy_from(a)  # enqueued
            del b
            with pool.for_numpy():
                x = make()
            memoryview(last)  # what was enqueued is done
            self.assertEqual(int(x.max()), 0)

    def test_a_limit_counts_what_comes_back_from_both_sides(self):
        pool = berth.Pool(limit=1 << 20)
        for _ in range(50):
            t = pool.allocate(3 << 18)
            del t
            with pool.for_numpy():
                a = numpy.zeros(3 << 18, numpy.uint8)
            del a

    def test_a_limit_is_a_memory_error(self):
        pool = berth.Pool(limit=1 << 20)
        with pool.for_numpy():
            with self.assertRaises(MemoryError):
                numpy.zeros(1 << 21, numpy.uint8)
            kept = numpy.zeros(1 << 18, numpy.uint8)
            with self.assertRaises(MemoryError):
                kept.resize(1 << 21, refcheck=False)
            self.assertEqual((kept.size, int(kept.max())), (1 << 18, 0))

    def test_whatever_numpy_does_with_memory_it_does_the_same(self):
        def work(seed):
            make = random.Random(seed)
            held, said = [], []
            for _ in range(300):
                act = make.randrange(5)
                if act == 0:
                    held.append(numpy.arange(make.randrange(2000)) * make.randrange(9))
                elif act == 1 and held:
                    a = held[make.randrange(len(held))]
                    a.resize(make.randrange(1, 4000), refcheck=False)  # realloc
                elif act == 2 and held:
                    held.append(numpy.concatenate(make.choices(held, k=3)))
                elif act == 3 and held:
                    said.append(int(held.pop(make.randrange(len(held))).sum()))
                elif held:
                    numpy.random.default_rng(seed).permutation(held[-1]).sort()
                    said.append(numpy.array(["x" * make.randrange(50) for _ in range(4)]).tolist())
            return said + [a.tolist() for a in held]

        pool = berth.Pool()
        for seed in range(5):
            right = work(seed)
            with pool.for_numpy():
                self.assertEqual(work(seed), right)
        self.assertEqual(live(pool), 0)
        self.assertGreater(pool.statistics()["allocations"], 500)

    def test_pools_nest_and_threads_have_their_own(self):
        one, two = berth.Pool(), berth.Pool()
        kept = []
        with one.for_numpy():
            kept.append(numpy.ones(100))
            with two.for_numpy():
                kept.append(numpy.ones(100))
                other = threading.Thread(target=lambda: kept.append(numpy.ones(100)))
                other.start()
                other.join()
                context = contextvars.copy_context()
            kept.append(numpy.ones(100))
        kept.append(numpy.ones(100))
        context.run(lambda: kept.append(numpy.ones(100)))  # as asyncio's tasks are
        self.assertEqual((live(one), live(two)), (2, 2))
        threading.Thread(target=kept.clear).start()
        manager = one.for_numpy()
        with self.assertRaises(berth.InputError):
            manager.__exit__()
        with manager, self.assertRaises(berth.InputError):
            manager.__enter__()
        with self.assertRaises(ZeroDivisionError), one.for_numpy():
            1 / 0
        with self.assertRaises(berth.InputError):
            berth.Pool("null").for_numpy()

    def test_a_child_of_fork_goes_on(self):
        pool = berth.Pool()
        with pool.for_numpy():
            a = numpy.ones(1000)
            child = os.fork()
            if child == 0:
                b = a * 2
                del a
                os._exit(0 if numpy.zeros(1000).sum() + b.sum() == 2000 else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(a.sum(), 1000)

    def test_the_interpreter_may_end_inside(self):
        program = "import berth, numpy; m = berth.Pool().for_numpy(); m.__enter__(); a = numpy.ones(999); t = berth.Pool().allocate(9)"
        ran = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, check=True)
        self.assertEqual(ran.stderr, b"")


if __name__ == "__main__":
    unittest.main()
