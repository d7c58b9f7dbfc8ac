// Tests the ways in which frameworks are installed. In each, the program reaches the preloaded
// drop-in, and the drop-in finds the package's real library without being told its path. The cudnn
// Python package also needs the dlsym hook. Every layout is a folder of real files; a run without
// the drop-in shows which library is the real one.
#include <filesystem>
#include <fstream>

#include "tests/integration/loader/outcomes.h"

namespace ucudnn::testing {
namespace {

namespace fs = std::filesystem;

// The cuDNN in the packages below reports this version.
constexpr char kStamp[] = "version=90001\n";

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

// LD_LIBRARY_PATH leads to another cuDNN, which must not be used.
Environment Decoy() { return {{"LD_LIBRARY_PATH", kRoot + "/by_environment"}}; }

// Makes Python find the modules in `site`.
Environment ImportingFrom(const std::string& site) {
  Environment environment = Decoy();
  environment["PYTHONPATH"] = site;
  environment["PYTHONDONTWRITEBYTECODE"] = "1";
  return environment;
}

void ExpectServed(const std::vector<std::string>& arguments, const Environment& environment,
                  const std::string& libraries = kDropin) {
  const Outcome alone = RunProgram(arguments, environment);
  EXPECT_NE(alone.out.find(kStamp), std::string::npos) << alone.out << alone.err;
  EXPECT_EQ(alone.out.find("0x5eed"), std::string::npos) << alone.out;
  ExpectSuccess(RunProgram(arguments, Preloaded(environment, libraries)), kHooked + kStamp);
}

// Makes a site-packages folder with NVIDIA's wheels. Returns its path.
std::string SitePackages(const std::string& name) {
  const std::string site = Fresh(name) + "/lib/python3/site-packages";
  Place("configured/libcudnn.so.9", site + "/nvidia/cudnn/lib/libcudnn.so.9");
  return site;
}

// Makes a site-packages folder with PyTorch's wheel for CUDA of major version `cuda`. The CUDA
// runtime is in nvidia/`folder`. Returns the path of site-packages.
std::string PyTorch(const std::string& name, const std::string& cuda, const std::string& folder) {
  const std::string site = SitePackages(name);
  const std::string runtime = "/libcudart.so." + cuda;
  Place("cudart/" + cuda + runtime, site + "/nvidia/" + folder + "/lib" + runtime);
  Place("wheel_cuda" + cuda + ".so", site + "/torch/lib/libtorch_cuda.so");
  return site;
}

TEST(Layouts, PyTorchWheelWithCuda12) {
  const std::string site = PyTorch("cuda12", "12", "cuda_runtime");
  ExpectServed({kOpener, "consumer", "local", site + "/torch/lib/libtorch_cuda.so"}, Decoy());
}

TEST(Layouts, PyTorchWheelWithCuda13) {
  const std::string site = PyTorch("cuda13", "13", "cu13");
  ExpectServed({kOpener, "consumer", "local", site + "/torch/lib/libtorch_cuda.so"}, Decoy());
}

TEST(Layouts, PyTorchWheelLoadedByPython) {
  const std::string site = PyTorch("python", "13", "cu13");
  std::ofstream(site + "/torch/__init__.py")
      << "import ctypes, os\n"
         "ctypes.CDLL(os.path.dirname(__file__) + '/lib/libtorch_cuda.so').UseLinkedCudnn()\n";
  ExpectServed({"/usr/bin/env", "python3", "-c", "import torch"}, ImportingFrom(site));
}

TEST(Layouts, TensorFlowWheel) {
  // TensorFlow opens cuDNN by its soname through a DT_RUNPATH. The loader searches LD_LIBRARY_PATH
  // before a DT_RUNPATH, so this test has no Decoy.
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
  const Environment environment = ImportingFrom(site);
  const std::vector<std::string> arguments = {"/usr/bin/env", "python3", "-c", "import cudnn"};
  ExpectServed(arguments, environment, kDropin + ":" + kFolder + "/libucudnn_dlsym.so");
  // Without the hook, the program does not reach the drop-in and uses only the real library.
  const Outcome unserved = RunProgram(arguments, Preloaded(environment));
  EXPECT_EQ(unserved.out, RunProgram(arguments, environment).out);
  EXPECT_EQ(unserved.exit_code, 0);
}

// Makes a Conda environment. `python` finds libraries in PREFIX/lib, where libcudnn.so.9 is a link
// to a file whose name has the full version. Returns PREFIX.
std::string Conda(const std::string& name, const std::string& python) {
  const std::string prefix = Fresh(name);
  Place(python, prefix + "/bin/python");
  Place("configured/libcudnn.so.9", prefix + "/lib/libcudnn.so.9.19.0");
  fs::create_symlink("libcudnn.so.9.19.0", prefix + "/lib/libcudnn.so.9");
  return prefix;
}

TEST(Layouts, CondaEnvironment) {
  const std::string prefix = Conda("conda", "opener");
  const std::string module = prefix + "/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so";
  Place("conda_module.so", module);
  // From torch/lib, $ORIGIN/../../../.. is PREFIX/lib.
  ExpectServed({prefix + "/bin/python", "consumer", "local", module}, Decoy());
}

TEST(Layouts, CondaEnvironmentThroughThePythonsOwnRunPath) {
  const std::string prefix = Conda("conda_python", "conda_opener");
  ExpectServed({prefix + "/bin/python", "soname"}, Decoy());
}

}  // namespace
}  // namespace ucudnn::testing
