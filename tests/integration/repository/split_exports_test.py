"""Tests a process whose images are split: no export of cuDNN silently computes on only a stripe. ucudnn must answer or
refuse the calls of every export that computes something and is not LOCAL."""

import os
import re
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))

# Functions that compute each element of the result from the same position of the inputs. Also functions that compute
# only from a filter, which is never split.
LOCAL = {
    "cudnnActivationBackward", "cudnnActivationForward", "cudnnAddTensor", "cudnnDropoutBackward", "cudnnDropoutForward",
    "cudnnOpTensor", "cudnnReorderFilterAndBias", "cudnnScaleTensor", "cudnnSetTensor", "cudnnTransformFilter",
    "cudnnTransformTensor", "cudnnTransformTensorEx"
}
# Functions that make or read descriptors and handles, or answer questions. (Backend plans are refused when they are
# finalized or executed.)
COMPUTES_NOTHING = re.compile(r"cudnn(Backend(Create|Destroy|Finalize|Get|Initialize|Set)\w*|Build\w+|Create\w*|Derive\w+|Destroy\w*|"
                              r"Dropout(GetReserveSpace|GetStates)Size|Get\w+|InitTransformDest|\w+GetBufferSizes|MakeFusedOpsPlan|"
                              r"QueryRuntimeError|RestoreDropoutDescriptor|RNN[GS]etClip_v\d|Set(?!Tensor$)\w+|\w+VersionCheck)$")


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def exports():
    return {line.split()[0] for line in read("shim", "dropin", "exports.txt").splitlines() if line and line[0] != "#"}


def answered():
    hooks = read("shim", "api", "hooks.cpp") + read("shim", "api", "split_hooks.cpp")
    return set(re.findall(r"HOOK\(\s*(cudnn\w+),", hooks))


def refused():
    return set(re.findall(r"F\((cudnn\w+)\)", read("shim", "api", "split_refusals.cpp")))


class SplitExports(unittest.TestCase):
    maxDiff = None

    def test_no_export_computes_on_a_stripe_alone(self):
        unknown = exports() - answered() - refused() - LOCAL
        self.assertEqual([], sorted(name for name in unknown if not COMPUTES_NOTHING.match(name)))

    def test_what_computes_is_not_taken_for_a_question(self):
        computing = {name for name in exports() if re.search(r"Forward|Backward|Execute|Tensor$|Populate", name)}
        computing -= {name for name in exports() if re.match(r"cudnn(Get|Find)", name)}
        self.assertGreater(len(computing), 50)
        self.assertEqual([], sorted(name for name in computing if COMPUTES_NOTHING.match(name)))

    def test_lists_name_exports_once(self):
        self.assertEqual(set(), (refused() | LOCAL) - exports())
        self.assertEqual(set(), LOCAL & (refused() | answered()))
        self.assertGreater(len(answered()), 25)
        self.assertGreater(len(refused()), 40)


if __name__ == "__main__":
    unittest.main()
