"""What a pool's memory on CUDA says of itself. Run with the stand-in for the driver that the C++ tests use."""

import unittest

import numpy

import berth


class OnCuda(unittest.TestCase):
    def setUp(self):
        self.pool = berth.Pool("cuda:0")

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
        for stream in (None, -1, 1, 2, 12345678):
            back = berth.from_dlpack(t.__dlpack__(stream=stream, max_version=(1, 0), dl_device=(2, 0)))
            self.assertEqual((back.address, back.__dlpack_device__()), (t.address, (2, 0)))
        for wrong in ({"stream": 0}, {"stream": -2}, {"dl_device": (1, 0)}):
            with self.assertRaises(BufferError):
                t.__dlpack__(**wrong)
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


if __name__ == "__main__":
    unittest.main()
