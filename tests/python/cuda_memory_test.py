"""What a pool's memory on CUDA says of itself, and who waits for whom. Run with the stand-in for the driver that the C++
tests use: it runs what is enqueued only when somebody waits for it, and counts the bytes that two streams use with
nothing between them."""

import ctypes
import os
import subprocess
import sys
import unittest

os.environ["BERTH_FAKE_LATE"] = "1"

import numpy

import berth


driver = ctypes.CDLL("libcuda.so.1")
driver.fake_cuda_mistakes.restype = ctypes.c_uint64
DEFAULT = None  # the legacy default stream's handle


def fill(stream, tensor, value):
    """Enqueues it on a stream of the driver's, as another library's kernel would be."""
    context = ctypes.c_void_p()
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    driver.cuCtxPushCurrent_v2(context)
    where, size = ctypes.c_uint64(tensor.address), ctypes.c_size_t(tensor.nbytes)
    failed = driver.cuMemsetD8Async(where, ctypes.c_ubyte(value), size, ctypes.c_void_p(stream))
    driver.cuCtxPopCurrent_v2(ctypes.byref(context))
    assert failed == 0


# Streams run by themselves here, on threads of the driver's.
WITH_FUNCTIONS = """
import ctypes, faulthandler, time
faulthandler.dump_traceback_later(10, exit=True)
import berth

driver = ctypes.CDLL("libcuda.so.1")

@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def function(_):
    time.sleep(0.05)
    print("ran", flush=True)

def call_on(stream):
    context = ctypes.c_void_p()
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    driver.cuCtxPushCurrent_v2(context)
    assert driver.cuLaunchHostFunc(ctypes.c_void_p(stream), function, None) == 0
    driver.cuCtxPopCurrent_v2(ctypes.byref(context))

pool = berth.Pool("cuda:0")
"""


class Producer:
    """Another library's array, which its default stream writes."""

    def __init__(self, tensor, words):
        self.tensor, self.words, self.asked = tensor, words, []

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, **words):
        self.asked.append(words)
        if not words.keys() <= self.words:
            raise TypeError("unknown words")
        fill(DEFAULT, self.tensor, 5)
        return self.tensor.__dlpack__(**{**words, "stream": -1})


class OnCuda(unittest.TestCase):
    def setUp(self):
        self.pool = berth.Pool("cuda:0")
        self.mistakes = driver.fake_cuda_mistakes()

    def tearDown(self):
        self.assertEqual(driver.fake_cuda_mistakes(), self.mistakes)

    def test_the_array_interface(self):
        t = self.pool.allocate((3, 4), dtype="float32")
        said = t.__cuda_array_interface__
        self.assertEqual(said["data"], (t.address, False))
        self.assertEqual((said["shape"], said["strides"], said["typestr"]), ((3, 4), (16, 4), "<f4"))
        self.assertEqual((said["version"], said["stream"]), (3, None))  # None: it was waited for
        self.assertTrue(t.as_readonly().__cuda_array_interface__["data"][1])

    def test_dlpack_names_the_device(self):
        t = self.pool.allocate(8)
        self.assertEqual(t.__dlpack_device__(), (2, 0))
        other = berth.Pool("cuda:0").stream()
        for stream in (None, -1, 1, 2, other.native):
            back = berth.from_dlpack(t.__dlpack__(stream=stream, max_version=(1, 0), dl_device=(2, 0)))
            self.assertEqual((back.address, back.__dlpack_device__()), (t.address, (2, 0)))
        for wrong in ({"stream": 0}, {"stream": -2}, {"dl_device": (1, 0)}):
            with self.assertRaises(BufferError):
                t.__dlpack__(**wrong)
        with self.assertRaises(RuntimeError):
            t.__dlpack__(stream=12345678)  # no stream's handle
        with self.assertRaises(BufferError):
            memoryview(t)
        with self.assertRaises(berth.InputError):
            self.pool.for_numpy()

    def test_arrays_are_copied_there_and_back_in_order(self):
        t, other = (self.pool.allocate(100, dtype="int32") for _ in range(2))
        t.copy_from(berth.from_dlpack(numpy.arange(100, dtype=numpy.int32)))
        other.copy_from(t)
        back = numpy.zeros(100, numpy.int32)
        berth.from_dlpack(back).copy_from(other)
        self.assertEqual(back.tolist(), list(range(100)))
        host = berth.Pool().allocate(100, dtype="int32")
        host.copy_from(other)
        self.assertEqual(numpy.asarray(host).sum(), 4950)

    def test_memory_comes_back_behind_its_readers_work(self):
        source = berth.from_dlpack(numpy.full(1 << 20, 9, numpy.uint8))
        other = berth.Pool("cuda:0")
        reader = other.stream()
        for stream, handle in ((None, DEFAULT), (1, DEFAULT), (2, DEFAULT), (reader.native, reader.native)):
            for words in ({}, {"max_version": (1, 0)}):
                t = self.pool.allocate(1 << 20)
                taken = berth.from_dlpack(t.__dlpack__(stream=stream, **words))
                fill(handle, taken, 1)
                del t, taken
                again = self.pool.allocate(1 << 20)
                again.copy_from(source)
                back = numpy.zeros(1 << 20, numpy.uint8)
                berth.from_dlpack(back).copy_from(again)
                self.assertEqual((int(back.min()), int(back.max())), (9, 9))
        self.assertTrue(reader.query())
        del reader, other  # whose work the pool asks for no more

    def test_imported_memory_goes_back_behind_its_next_readers_work(self):
        source = berth.from_dlpack(numpy.full(1 << 20, 9, numpy.uint8))
        other = berth.Pool("cuda:0")
        reader = other.stream()
        for stream, handle in ((None, DEFAULT), (1, DEFAULT), (2, DEFAULT), (reader.native, reader.native)):
            for words in ({}, {"max_version": (1, 0)}):
                theirs = self.pool.allocate(1 << 20)  # of a library that counts on the order of its own stream
                t = berth.from_dlpack(theirs.__dlpack__(stream=-1))
                address = theirs.address
                taken = berth.from_dlpack(t.__dlpack__(stream=stream, **words))
                fill(handle, taken, 1)
                del t, theirs, taken
                again = self.pool.allocate(1 << 20)
                self.assertEqual(again.address, address)
                again.copy_from(source)
                back = numpy.zeros(1 << 20, numpy.uint8)
                berth.from_dlpack(back).copy_from(again)
                self.assertEqual((int(back.min()), int(back.max())), (9, 9))
        del reader, other

    def test_whoever_drops_the_last_of_a_stream_lets_its_functions_run(self):
        environment = {name: value for name, value in os.environ.items() if name != "BERTH_FAKE_LATE"}
        for which, lines in (
            ("a stream", "s = pool.stream(); call_on(s.native); del s"),
            ("its tensor", "s = pool.stream(); t = pool.allocate(8, stream=s); call_on(s.native); del s; del t"),
            ("a pool", "t = pool.allocate(8); c = t.__dlpack__(stream=1); call_on(None); del c, t; del pool"),
            ("a capsule", "t = pool.allocate(8); c = t.__dlpack__(stream=1); call_on(None); del t, pool; del c"),
            ("a reader", "r = pool.stream(); t = pool.allocate(8); c = t.__dlpack__(stream=r.native); call_on(r.native); del c"),
        ):
            with self.subTest(which):
                program = WITH_FUNCTIONS + lines + "\nprint('dropped')"
                ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
                self.assertEqual((ran.stdout, ran.stderr, ran.returncode), ("ran\ndropped\n", "", 0))

    def test_a_producers_work_is_waited_for(self):
        made, t = berth.Pool("cuda:0").allocate(1 << 20), self.pool.allocate(1 << 20)
        for words in ({"stream", "max_version"}, {"stream"}):
            producer = Producer(made, words)
            t.copy_from(berth.from_dlpack(producer))
            self.assertEqual([a["stream"] for a in producer.asked], [1] * (3 - len(words)))
            back = numpy.zeros(1 << 20, numpy.uint8)
            berth.from_dlpack(back).copy_from(t)
            self.assertEqual((int(back.min()), int(back.max())), (5, 5))
            t.copy_from(berth.from_dlpack(numpy.zeros(1 << 20, numpy.uint8)))


if __name__ == "__main__":
    unittest.main()
