#include "subject.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "recorder.h"
#include "shim/api/hooks.h"
#include "shim/api/process.h"

namespace ucudnn {
namespace {

interposer::Interposer* current = nullptr;

// Returns the function that the drop-in has under `name`: the hook, or the real function.
void* Entry(const char* name, void* real) {
  for (const Hook& hook : Hooks()) {
    if (std::strcmp(hook.name, name) == 0) return hook.function;
  }
  return real;
}

cudnn::Functions Entries() {
  cudnn::Functions functions;
#define UCUDNN_ENTRY(name)                              \
  functions.name = reinterpret_cast<decltype(&::name)>( \
      Entry(#name, reinterpret_cast<void*>(test::Undivided().name)));
  UCUDNN_CUDNN_FUNCTIONS(UCUDNN_ENTRY)
#undef UCUDNN_ENTRY
  return functions;
}

}  // namespace

// In libucudnn, functions of these names return the process's own interposer and options. The
// functions here replace them.
interposer::Interposer* ProcessInterposer() { return current; }
const Options& FixedOptions() { return ProcessOptions(); }

namespace fuzz {

Subject::Subject(const Setting& setting)
    : interposer_(setting.options, Recording(), cuda::GetDriver(),
                  setting.has_store ? &store_ : nullptr) {
  static const planning::Platform platform = test::CurrentPlatform();
  const Status written = store_.Write(setting.problem, platform, setting.rows, setting.sizes);
  EXPECT_TRUE(written.ok()) << written.message();
  current = &interposer_;
  EXPECT_EQ(functions().cudnnCreate(&handle_), CUDNN_STATUS_SUCCESS);
}

Subject::~Subject() {
  functions().cudnnDestroy(handle_);
  current = nullptr;
}

bool Subject::SuspectsAPlan() {
  const std::string report = interposer_.report().Json("on", 0);
  return report.find("a divided plan is wrong") != std::string::npos ||
         report.find("found the plan wrong") != std::string::npos;
}

const cudnn::Functions& Subject::functions() const {
  static const cudnn::Functions functions = Entries();
  return functions;
}

}  // namespace fuzz
}  // namespace ucudnn
