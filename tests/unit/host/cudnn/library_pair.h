// Loads the real cuDNN and the stand-in into one process. Descriptor functions of the real library
// work without a GPU, so the stand-in's can be compared with them.
#pragma once

#include <cudnn.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

// Names a function of cuDNN: CUDNN(Create) is cudnnCreate.
template <class Type>
struct CudnnFunction {
  const char* name;
};
#define CUDNN(function) \
  CudnnFunction<decltype(&::cudnn##function)> { "cudnn" #function }

class Library {
 public:
  // Loads the library at `path`. Returns why it cannot be loaded, or an empty text.
  std::string Load(const char* path) {
    library_ = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return library_ == nullptr ? dlerror() : std::string();
  }
  template <class Type>
  Type operator[](CudnnFunction<Type> function) const {
    void* const found = dlsym(library_, function.name);
    if (found == nullptr) throw std::runtime_error(std::string("no ") + function.name);
    return reinterpret_cast<Type>(found);
  }

 private:
  void* library_ = nullptr;
};

// Loads both libraries once. Skips the test if there is no real one.
class LibraryPair : public testing::Test {
 protected:
  void SetUp() override {
    static std::string missing = real_.Load(REAL_CUDNN);
    if (!missing.empty()) GTEST_SKIP() << "no real cuDNN to compare with: " << missing;
    static std::string broken = ours_.Load(STANDIN_CUDNN);
    ASSERT_EQ(broken, "");
  }

  static inline Library real_;
  static inline Library ours_;
};
