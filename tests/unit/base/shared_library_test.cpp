#include "base/shared_library.h"

#include <gtest/gtest.h>

namespace ucudnn {
namespace {

TEST(SharedLibrary, Loaded_FindsWhatTheProcessHasAndLoadsNothing) {
  const Result<SharedLibrary> own = SharedLibrary::Loaded("libc.so.6");
  ASSERT_TRUE(own.ok()) << own.message();
  EXPECT_NE(own->Symbol("malloc"), nullptr);
  for (const char* name : {"libnobody-has-this.so.1", "libanl.so.1"}) {
    EXPECT_FALSE(SharedLibrary::Loaded(name).ok()) << name;
  }
}

}  // namespace
}  // namespace ucudnn
