"""Tests that cuDNN accepts the profile that tools/gpu-check records, in place of a device."""

import json
import subprocess
import tempfile
import unittest

import machine

PROGRAM = machine.BUILD / "tests/gpu/bin/device_profile"

# A profile like that of a data-centre GPU, with values from a public data sheet; no assertion depends on them.
EXAMPLE = {"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,
           "multiProcessorCount": 132, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
           "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536,
           "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0,
           "supportCoopLaunch": 1, "totalGlobalMem": 150000000000, "smClockRateKHz": 1980000,
           "memClockRateKHz": 2619000, "l2CacheSize": 52428800, "cudaDeviceId": 0, "deviceVer": 900,
           "driverVer": 13000, "deviceName": "example"}


def profile(*words):
    return subprocess.run([PROGRAM, *words], env=machine.environment(), capture_output=True, text=True, timeout=60)


class Profile(unittest.TestCase):
    def read_back(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(text)
            file.flush()
            result = profile(file.name)
        self.assertEqual(0, result.returncode, result.stderr)
        return json.loads(result.stdout)

    @unittest.skipIf(machine.gpu() is None, machine.NO_GPU)
    def test_profile_of_this_gpu_is_accepted_in_place_of_it(self):
        result = profile()
        self.assertEqual(0, result.returncode, result.stderr)
        recorded = json.loads(result.stdout)
        self.assertEqual(machine.gpu().name, recorded["deviceName"])
        self.assertEqual(recorded, self.read_back(result.stdout))

    def test_profile_is_kept_as_given(self):
        self.assertEqual(EXAMPLE.keys(), self.read_back(json.dumps(EXAMPLE)).keys())

    @unittest.skipIf(machine.gpu() is not None, "there is a GPU")
    def test_without_a_gpu_there_is_no_profile(self):
        result = profile()
        self.assertEqual((machine.SKIPPED, ""), (result.returncode, result.stdout))
        self.assertIn(machine.NO_GPU, result.stderr)

    def test_malformed_profile_is_refused(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write('{"warpSize": 32}')
            file.flush()
            result = profile(file.name)
        self.assertEqual(1, result.returncode)
        self.assertIn("maxGridSize", result.stderr)


if __name__ == "__main__":
    machine.main()
