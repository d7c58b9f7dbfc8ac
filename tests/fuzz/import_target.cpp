// The function that libFuzzer calls with each input. There is one program for each format of files
// (UCUDNN_FUZZED_FORMAT).
#include <cstdio>
#include <cstdlib>

#include "import_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const std::string fault =
      ucudnn::fuzz::CheckImport(ucudnn::fuzz::FileFormat::UCUDNN_FUZZED_FORMAT, bytes).fault;
  if (!fault.empty()) {
    std::fprintf(stderr, "%s\n", fault.c_str());
    std::abort();
  }
  return 0;
}
