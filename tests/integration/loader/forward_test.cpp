// Tests that every forwarder passes on all arguments, at the first call (through the stub that
// fills the slots) and later, and that the real library gives the same answers through the drop-in
// as when it is called directly.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/integration/loader/fake_real.h"
#include "tests/integration/loader/outcomes.h"

namespace ucudnn::testing {
namespace {

const std::string kBare = kRoot + "/bare/lib/ucudnn/libcudnn.so.9";

struct Export {
  long index;
  const char* name;
};
#define EXPORT(index, name, kind) {index, #name},
constexpr Export kExports[] = {
#include "exports.inc"
};
#undef EXPORT

using CheckingFunction = long(FAKE_PARAMETERS);

// Must run in a new process, so that the call is the drop-in's first. Returns 0 if the arguments
// and the result are right.
int CallFirstThenAgain(const Export& export_) {
  void* dropin = dlopen(kBare.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (dropin == nullptr) return 10;
  auto* function = reinterpret_cast<CheckingFunction*>(dlsym(dropin, export_.name));
  if (function == nullptr) return 11;
  if (function(FAKE_ARGUMENTS) != export_.index) return 12;
  if (function(FAKE_ARGUMENTS) != export_.index) return 13;
  return 0;
}

TEST(Forward, EveryExportDeliversRegistersAndStackOnFirstAndLaterCalls) {
  static_assert(std::size(kExports) == EXPORT_COUNT);
  ASSERT_EQ(setenv("UCUDNN_REAL_CUDNN", (kRoot + "/checking/libcudnn.so.9").c_str(), 1), 0);
  for (const Export& export_ : kExports) {
    const pid_t child = fork();
    if (child == 0) _exit(CallFirstThenAgain(export_));
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << export_.name;
  }
}

TEST(Forward, OneFirstCallFillsAllSlots) {
  ASSERT_EQ(setenv("UCUDNN_REAL_CUDNN", (kRoot + "/checking/libcudnn.so.9").c_str(), 1), 0);
  void* dropin = dlopen(kBare.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(dropin, nullptr) << dlerror();
  for (const Export& export_ : kExports) {
    auto* function = reinterpret_cast<CheckingFunction*>(dlsym(dropin, export_.name));
    ASSERT_NE(function, nullptr) << export_.name;
    EXPECT_EQ(function(FAKE_ARGUMENTS), export_.index) << export_.name;
  }
}

TEST(Forward, RealCudnnAnswersAsItDoesAlone) {
  const Outcome alone = RunProgram({kRoot + "/answers"});
  const Outcome behind = RunProgram({kRoot + "/answers"}, {{"LD_PRELOAD", DROPIN}});
  EXPECT_NE(alone.out.find("descriptor=0 5 6 7 8\n"), std::string::npos) << alone.out;
  ExpectSuccess(behind, alone.out);
}

}  // namespace
}  // namespace ucudnn::testing
