"""Lists the stages of tools/gpu-check, and for each sitting the stages that it runs, the most valuable ones first."""

import dataclasses

import machine

# The lane of a stage says what may run at the same time. ucudnn lets only one process per device measure. If two tests measured
# at the same time, one of them would divide nothing and might still pass.
BESIDE = "beside"    # uses no GPU, so it may start whatever stages are running
FREE = "free"        # ucudnn does not measure: runs without ucudnn, ranks that exchange, runs on a prepared store
MEASURES = "measures"  # ucudnn measures: only one such stage runs at a time, possibly together with stages of FREE
ALONE = "alone"      # records times, memory, or how long something takes to end, so only BESIDE runs at the same time

GATE = "gate"


@dataclasses.dataclass(frozen=True)
class Stage:
    """Describes a stage. `seconds` is how long the stage is expected to take on an H100. The stage is killed soon after
    `limit` seconds. `guards` names the faults that only a GPU can show. `work` has the name of a function in a module
    of this folder, and the arguments that follow the sitting and the seconds. `needs` are the names of stages that must
    have ended before this one begins. With `every_time` the stage runs even if it passed in an earlier sitting."""

    name: str
    lane: str
    seconds: float
    limit: float
    guards: str
    work: tuple
    needs: tuple = ()
    every_time: bool = False

    @property
    def is_test(self):
        return self.work[0] == "tests.test"


def test(name, lane, seconds, limit, guards, file, *cases, needs=(), every_time=False):
    return Stage(f"test {name}", lane, seconds, limit, guards, ("tests.test", file, cases), needs, every_time)


def references(name, file, *cases, seconds=15, needs=()):
    return Stage(f"references {name}", FREE, seconds, 90, "nothing: runs without ucudnn, for tests that compare",
                 ("tests.references", file, cases), needs)


TORCH = ("versions", "page cache")
BEGIN = (
    Stage("page cache", BESIDE, 10, 60, "the first program waits for the disk, and its test times out", ("gate.page_cache",),
          every_time=True),
    Stage("versions", BESIDE, 15, 60, "a framework that does not find its libraries there", ("versions.versions",), every_time=True),
    Stage(GATE, ALONE, 10, 60, "the driver's symbols, sub-libraries of cuDNN that load lazily, a device profile's fields",
          ("gate.gate",), every_time=True),
)

# Some tests compare with runs without ucudnn. If a sitting has a stage "references …" for such a test, that stage makes
# these runs.
SHORT = (
    references("torch graph", "torch", "BriefGraph", needs=TORCH),
    references("torch legacy", "torch", "BriefLegacy", needs=TORCH),
    references("training", "torch_training", "BriefResNet50", seconds=20, needs=TORCH),
    references("differential", "differential", "BriefMeasured", seconds=5),
    references("capture", "capture", "Capture", seconds=5),
    test("differential measured", MEASURES, 11, 60, "engines' ids and algorithms that no offline list has; alignment that faults",
         "differential", "BriefMeasured", needs=("references differential",), every_time=True),  # "differential engines" needs the rows
    test("capture", MEASURES, 10, 60, "the driver's capture modes, and modules that load lazily while another thread captures",
         "capture", needs=("references capture",)),
    test("torch graph briefly", MEASURES, 17, 90, "JSON fields of plans, engines that compile at run time, PyTorch's allocator beside measuring",
         "torch", "BriefGraph", needs=(*TORCH, "references torch graph")),
    test("torch legacy briefly", MEASURES, 17, 90, "TF32 in CUDNN_DEFAULT_MATH, workspace that PyTorch allocates by what was promised",
         "torch", "BriefLegacy", needs=(*TORCH, "references torch legacy")),
    test("torch training briefly", MEASURES, 20, 90, "rounding of the device's engines, against float64", "torch_training", "BriefResNet50",
         needs=(*TORCH, "references training")),
    test("differential engines", FREE, 30, 90, "an engine whose pieces are wrong on the device alone", "differential", "BriefEngines",
         needs=("test differential measured",)),
    test("spatial networks briefly", FREE, 35, 120, "events and copies between processes that share a device", "spatial", "BriefNetworks"),
    test("spatial plans briefly", FREE, 25, 120, "plans of the device's engines in stripes", "spatial", "BriefPlans"),
    test("torch spatial briefly", FREE, 35, 120, "backends that torch takes on a GPU alone; gloo beside cuDNN's streams", "torch_spatial",
         "BriefDecoding", needs=TORCH),
    test("nccl", FREE, 15, 90, "the machine's own NCCL, its version and where it lies", "nccl"),
    test("memory briefly", ALONE, 9, 60, "memory that cudaMemGetInfo alone shows, with the driver's own granularity", "memory",
         "BriefMemory"),
    test("spatial faults briefly", ALONE, 22, 120, "a dead process's share of the device, and how long the driver takes to give it back",
         "spatial", "Faults.test_a_rank_that_dies_amid_steps_ends_the_job_in_time",
         "Faults.test_a_rank_that_does_not_come_is_waited_for_until_the_timeout"),
)


def headline(name, seconds, limit, guards, function, *arguments, needs=()):
    return Stage(f"headline {name}", ALONE, seconds, limit, guards, (f"headlines.{function}", *arguments), needs)


HEADLINES = (
    headline("layers", 150, 210, "times that measuring one piece on the same x predicts, and whole calls do not take", "layers"),
    headline("ResNet-50 iteration", 70, 120, "the allocator beside measuring, launch cost of pieces", "resnet50_iteration", needs=TORCH),
    headline("L2 rows", 40, 70, "whether converted copies stay in the L2 cache", "l2_rows"),
    headline("call cost", 15, 40, "the cost of real descriptors, launches and plans", "call_cost"),
)


def fact(name, lane, seconds, limit, guards, function, *arguments, needs=()):
    return Stage(f"facts {name}", lane, seconds, limit, guards, (f"facts.{function}", *arguments), needs)


REPEAT_GUARDS = "clocks that fall while the sitting lasts"
FACTS = (
    fact("plans", FREE, 12, 60, "a device-less plan that differs from the device's", "plans"),
    fact("legacy", FREE, 20, 60, "what the legacy API answers, which nothing offline knows", "legacy"),
    fact("kernels", FREE, 10, 60, "how many kernels a plan launches, and whether it can be captured", "kernels"),
    fact("launches", ALONE, 8, 40, "first-launch cost of code that loads lazily", "launches"),
    fact("sweep", ALONE, 8, 40, "the L2 cache's part in the time of small pieces", "sweep"),
    fact("tiles", ALONE, 20, 60, "strided views and asymmetric pads on real engines; engine 0's speed", "tiles"),
    fact("ceilings", ALONE, 10, 40, "the card's own bandwidth and arithmetic", "ceilings", needs=TORCH),
)
REPEATS = {when: fact(f"one kernel, {when}", ALONE, 3, 20, REPEAT_GUARDS, "repeat", when) for when in ("start", "middle", "end")}


def measured(name, limit, guards, function, *arguments, needs=()):
    """Returns a stage of the lane ALONE that records times by a function of figures.py."""
    return Stage(name, ALONE, limit / 4, limit, guards, (f"figures.{function}", *arguments), needs)


def long_test(name, limit, guards, file, *cases, lane=MEASURES, needs=(), seconds=None):
    return test(name, lane, seconds or limit / 2, limit, guards, file, *cases, needs=needs)


TRAINING = "rounding of the device's engines in this type and layout, against float64"
COMPILED = "convolutions beside kernels that Triton compiles there"
LONG_TESTS = (
    long_test("alexnet", 120, "algorithms and workspaces of the device", "alexnet"),
    long_test("differential", 240, "an engine whose pieces are wrong on the device alone", "differential", "Measured", "Engines"),
    long_test("profile", 30, "a profile's fields", "profile", lane=FREE),
    long_test("trace", 30, "names that this cuDNN exports", "trace", lane=FREE),
    long_test("spatial programs", 420, "events and copies between processes that share a device", "spatial", "Networks", "Plans"),
    long_test("memory", 60, "memory that cudaMemGetInfo alone shows", "memory", lane=ALONE),
    long_test("spatial grids", 300, "types and layouts that the device alone runs", "spatial", "Grids"),
    long_test("spatial faults", 180, "a dead process's share of the device", "spatial", "Faults", lane=ALONE),
    long_test("multigrid", 240, "streams that really run at once, recorded cycles", "multigrid", lane=ALONE),
    long_test("torch graph", 300, "JSON fields of plans, engines that compile at run time, native graphs", "torch", "Graph", needs=TORCH),
    long_test("torch legacy", 300, "TF32 in CUDNN_DEFAULT_MATH", "torch", "Legacy", needs=TORCH),
    *(long_test(f"torch training {case}", limit, COMPILED if "Compiled" in case else TRAINING, "torch_training", case, needs=TORCH,
                seconds=100 if "Compiled" in case else None)
      for case, limit in (("UNet3d", 360), ("ResNet50", 420), ("Deterministic", 300), ("UNet3dLegacy", 240),
                          ("ResNet50Legacy", 300), ("UNet3dCompiled", 300), ("ResNet50Compiled", 360))),
    long_test("torch samples", 360, "convolutions that nobody here chose, on the device's engines", "torch_samples", needs=TORCH,
              seconds=130),
    long_test("torch spatial", 300, "backends that torch takes on a GPU alone", "torch_spatial", needs=TORCH),
    long_test("torch parallel", 180, "tensors that gloo carries through the host beside torch's streams, NCCL's groups, devices by name",
              "torch_parallel", lane=FREE, needs=TORCH, seconds=30),
    *(long_test(case.lower(), limit, "the framework's own way of loading cuDNN there", "convolutions", case, needs=("versions",),
                seconds=100)
      for case, limit in (("Jax", 480), ("TensorFlow", 300), ("OnnxRuntime", 360))),
)
# These are the networks of the paper's Figs. 9 to 14, and one other network. AlexNet comes first, since its stages are
# the shortest.
NETWORKS = ((("alexnet", 1),) if machine.HOST else
            (("alexnet", 256), ("alexnet-caffe", 256), ("resnet18", 128), ("resnet50", 64), ("densenet40", 256),
             ("resnet50", 32), ("alexnet", 1024), ("alexnet-caffe", 1024), ("vgg16", 64)))
# Whole iterations of PyTorch are timed for these networks and mini-batches. `vae` decodes a single picture, which
# ucudnn can still divide, into tiles.
LAYOUTS = (("unet", 2), ("vae", 1)) if machine.HOST else (("resnet50", 32), ("unet", 8), ("vae", 1))
ITERATIONS = (("resnet50", 2),) if machine.HOST else (("resnet50", 64), ("alexnet", 256), ("resnet18", 128), ("densenet40", 256),
                                                      ("resnet50", 32))
POLICIES = ("auto", "WD") if machine.HOST else ("undivided", "powerOfTwo", "auto", "WD")


def iterations(policies, suffix=""):
    """Returns the stages for all networks and limits. All networks run within 64 MiB before any runs within another
    limit."""
    return [measured(f"iterations {network} {batch} {mib} MiB{suffix}", 120, "gains that whole iterations do not show",
                     "torch_whole_iterations", network, batch, mib, policies, needs=TORCH)
            for mib in ((64,) if machine.HOST else (64, 8, 512)) for network, batch in ITERATIONS]


LONG_FIGURES = (
    measured("trace of PyTorch", 180, "calls that PyTorch makes on a GPU alone", "torch_trace", needs=TORCH),
    *(measured(f"PyTorch {network} {'channels_last' if last else 'NCHW'}", 240, "gains by layout and precision", "torch_layouts",
               network, batch, last, needs=TORCH) for network, batch in LAYOUTS for last in (False, True)),
    *(measured(f"network {network} {batch}", 150, "times of every engine", "network", network, batch) for network, batch in NETWORKS),
    *iterations(POLICIES),
    measured("cliff", 120, "what one byte less costs", "cliff"),
    measured("L2-sized micro-batches", 300, "whether converted copies stay in the L2 cache", "l2"),
    measured("table alexnet", 240, "times of every size", "table"),
    measured("compute-sanitizer", 180, "reads and writes beyond a buffer, and of what nobody wrote", "sanitizer"),
    measured("benches", 90, "what the driver's own calls cost the host", "benches"),
    *([] if machine.HOST else iterations(("all",), " all")),
)
TWENTY = measured("engines of 20 layers", 150, "times of every engine", "engines_of_layers")
DRIFT = headline("drift", 30, 60, "figures that another day or card does not repeat", "drift")
TAKE_IN = Stage("measurements of before", FREE, 2, 30, "nothing: reads a file", ("figures.take_in",), every_time=True)
EXPORT = Stage("export", ALONE, 3, 30, "nothing: writes a file", ("figures.export",), every_time=True)
EVERY = {stage.name: stage for stage in (*BEGIN, *SHORT, *HEADLINES, *FACTS, *REPEATS.values(), DRIFT, TWENTY, *LONG_TESTS, *LONG_FIGURES,
                                         TAKE_IN, EXPORT)}


def of(*words):
    """Returns the stages of LONG_TESTS and LONG_FIGURES whose names begin with one of `words`, in the order of `words`."""
    return tuple(stage for word in words for stage in (*LONG_TESTS, *LONG_FIGURES) if f"{stage.name} ".startswith(f"{word} "))


@dataclasses.dataclass(frozen=True)
class Plan:
    """Describes a sitting by its seconds and stages. With `repeats_failures`, some stages run right after the gate: stages that
    failed in earlier sittings, and stages of SHORT that did not run there. The stages `last` run even if no time is left."""

    seconds: float
    stages: tuple
    repeats_failures: bool = True
    last: tuple = ()


SITTINGS = {
    "A": Plan(150, (*BEGIN, *SHORT), repeats_failures=False),
    "B": Plan(450, (*BEGIN, REPEATS["start"], *HEADLINES[:2], *(stage for stage in FACTS if stage.lane == FREE), REPEATS["middle"],
                    *(stage for stage in FACTS if stage.lane == ALONE), *HEADLINES[2:], REPEATS["end"],
                    *of("benches", "network alexnet", "test torch graph", "test torch training ResNet50", "test spatial grids")),
              last=(EXPORT,)),
    "2A": Plan(150, (*BEGIN, DRIFT, FACTS[5], TWENTY), last=(EXPORT,)),
    "2B": Plan(450, (*BEGIN, *of("test jax", "PyTorch", "test torch legacy", "cliff")), last=(EXPORT,)),
    "3A": Plan(150, (*BEGIN, *of("test torch parallel", "compute-sanitizer"))),
    "3B": Plan(450, (*BEGIN, *of("test multigrid", "test torch samples", "test torch training ResNet50Compiled", "iterations",
                                 "test torch training UNet3dCompiled")), last=(EXPORT,)),
}
# A run without --sitting has these stages. Stages of SHORT that are parts of longer stages are left out.
ALL = (*BEGIN, *(stage for stage in SHORT if stage.name in ("test capture", "test nccl")), *LONG_TESTS, *HEADLINES, *FACTS,
       *LONG_FIGURES)
