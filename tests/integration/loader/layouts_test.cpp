// Tests the ways in which frameworks are installed: in each, the program reaches the drop-in, and
// the drop-in finds the real library that the package brought, with nothing configured. Every
// layout is a folder of real files; a run without the drop-in shows which library that is.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/integration/loader/process.h"

namespace ucudnn::testing {
namespace {

namespace fs = std::filesystem;

const std::string kRoot = LOADER_ROOT;
const std::string kOpener = kRoot + "/opener";
const std::string kDropin = kRoot + "/hooked/lib/ucudnn/libcudnn.so.9";
const std::string kHook = kRoot + "/hooked/lib/ucudnn/libucudnn_dlsym.so";
constexpr char kStamp[] = "version=90001\n";  // of the library that the packages below bring

using Environment = std::map<std::string, std::string>;

// Returns a new, empty folder for this test.
std::string Fresh(const std::string& name) {
  const std::string folder = kRoot + "/layouts/" + name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

void Place(const std::string& file, const std::string& where) {
  fs::create_directories(fs::path(where).parent_path());
  fs::copy_file(kRoot + "/" + file, where);
}

// LD_LIBRARY_PATH leads to another cuDNN, which no test below may take.
Environment Decoy() { return {{"LD_LIBRARY_PATH", kRoot + "/by_environment"}}; }

Environment Preloaded(Environment environment, const std::string& also = "") {
  environment["LD_PRELOAD"] = kDropin + also;
  return environment;
}

void ExpectServed(const std::vector<std::string>& arguments, const Environment& environment,
                  const std::string& hook = "") {
  const Outcome alone = RunProgram(arguments, environment);
  EXPECT_NE(alone.out.find(kStamp), std::string::npos) << alone.out << alone.err;
  EXPECT_EQ(alone.out.find("0x5eed"), std::string::npos) << alone.out;
  const Outcome served = RunProgram(arguments, Preloaded(environment, hook));
  EXPECT_EQ(served.out, "create=0 handle=0x5eed " + std::string(kStamp)) << served.err;
  EXPECT_EQ(served.err, "");
  EXPECT_EQ(served.exit_code, 0);
}

// Makes site-packages with NVIDIA's wheels; returns its path.
std::string SitePackages(const std::string& name) {
  const std::string site = Fresh(name) + "/lib/python3/site-packages";
  Place("configured/libcudnn.so.9", site + "/nvidia/cudnn/lib/libcudnn.so.9");
  return site;
}

TEST(Layouts, PyTorchWheelWithCuda12) {
  const std::string site = SitePackages("cuda12");
  Place("cudart/12/libcudart.so.12", site + "/nvidia/cuda_runtime/lib/libcudart.so.12");
  Place("wheel_cuda12.so", site + "/torch/lib/libtorch_cuda.so");
  ExpectServed({kOpener, "consumer", "local", site + "/torch/lib/libtorch_cuda.so"}, Decoy());
}

TEST(Layouts, PyTorchWheelWithCuda13) {
  const std::string site = SitePackages("cuda13");
  Place("cudart/13/libcudart.so.13", site + "/nvidia/cu13/lib/libcudart.so.13");
  Place("wheel_cuda13.so", site + "/torch/lib/libtorch_cuda.so");
  ExpectServed({kOpener, "consumer", "local", site + "/torch/lib/libtorch_cuda.so"}, Decoy());
}

TEST(Layouts, PyTorchWheelLoadedByPython) {
  const std::string site = SitePackages("python");
  Place("cudart/13/libcudart.so.13", site + "/nvidia/cu13/lib/libcudart.so.13");
  Place("wheel_cuda13.so", site + "/torch/lib/libtorch_cuda.so");
  std::ofstream(site + "/torch/__init__.py")
      << "import ctypes, os\n"
         "ctypes.CDLL(os.path.dirname(__file__) + '/lib/libtorch_cuda.so').UseLinkedCudnn()\n";
  Environment environment = Decoy();
  environment["PYTHONPATH"] = site;
  environment["PYTHONDONTWRITEBYTECODE"] = "1";
  ExpectServed({"/usr/bin/env", "python3", "-c", "import torch"}, environment);
}

TEST(Layouts, TensorFlowWheel) {
  // The library that opens cuDNN by its soname has a DT_RUNPATH, and LD_LIBRARY_PATH would come
  // first.
  const std::string site = SitePackages("tensorflow");
  const std::string library = site + "/tensorflow/libtensorflow_framework.so.2";
  Place("tensorflow_stub.so", library);
  ExpectServed({kOpener, "consumer", "local", library}, {});
}

TEST(Layouts, XlaPluginAlone) {
  const std::string site = SitePackages("xla");
  Place("xla_stub.so", site + "/jax_plugins/xla_cuda13/xla_cuda_plugin.so");
  ExpectServed({kOpener, "consumer", "local", site + "/jax_plugins/xla_cuda13/xla_cuda_plugin.so"},
               Decoy());
}

TEST(Layouts, JaxOpensTheWheelsFileThenItsPluginTheSoname) {
  const std::string site = SitePackages("jax");
  const std::string plugin = site + "/jax_plugins/xla_cuda13/xla_cuda_plugin.so";
  Place("xla_stub.so", plugin);
  const std::string script = "import ctypes\nctypes.cdll.LoadLibrary('" + site +
                             "/nvidia/cudnn/lib/libcudnn.so.9')\nctypes.CDLL('" + plugin +
                             "').UseLinkedCudnn()\n";
  ExpectServed({"/usr/bin/env", "python3", "-c", script}, Decoy());
}

TEST(Layouts, CudnnPythonPackageNeedsTheDlsymHook) {
  const std::string site = SitePackages("cudnn");
  Place("handle_user.so", site + "/cudnn/_compiled_module.so");
  std::ofstream(site + "/cudnn/__init__.py")
      << "import ctypes, glob, os\n"
         "folder = os.path.dirname(__file__)\n"
         "library = ctypes.CDLL(glob.glob(folder + '/../nvidia/cudnn/lib/libcudnn.so.*[0-9]')[0])\n"
         "use = ctypes.CDLL(folder + '/_compiled_module.so').UseHandle\n"
         "raise SystemExit(use(ctypes.c_void_p(library._handle)))\n";
  Environment environment = Decoy();
  environment["PYTHONPATH"] = site;
  environment["PYTHONDONTWRITEBYTECODE"] = "1";
  const std::vector<std::string> arguments = {"/usr/bin/env", "python3", "-c", "import cudnn"};
  ExpectServed(arguments, environment, ":" + kHook);
  // Without the hook the program runs as before: the real library alone serves it.
  const Outcome unserved = RunProgram(arguments, Preloaded(environment));
  EXPECT_EQ(unserved.out, RunProgram(arguments, environment).out);
  EXPECT_EQ(unserved.exit_code, 0);
}

// PREFIX/bin/python loads everything from PREFIX/lib; the library there is a link to its full name.
TEST(Layouts, CondaEnvironment) {
  const std::string prefix = Fresh("conda");
  Place("opener", prefix + "/bin/python");
  Place("configured/libcudnn.so.9", prefix + "/lib/libcudnn.so.9.19.0");
  fs::create_symlink("libcudnn.so.9.19.0", prefix + "/lib/libcudnn.so.9");
  const std::string module = prefix + "/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so";
  Place("conda_module.so", module);
  // The folder $ORIGIN/../../../.. of torch/lib is PREFIX/lib.
  ExpectServed({prefix + "/bin/python", "consumer", "local", module}, Decoy());
}

TEST(Layouts, CondaEnvironmentThroughThePythonsOwnRunPath) {
  const std::string prefix = Fresh("conda_python");
  Place("conda_opener", prefix + "/bin/python");
  Place("configured/libcudnn.so.9", prefix + "/lib/libcudnn.so.9.19.0");
  fs::create_symlink("libcudnn.so.9.19.0", prefix + "/lib/libcudnn.so.9");
  ExpectServed({prefix + "/bin/python", "soname"}, Decoy());
}

}  // namespace
}  // namespace ucudnn::testing
