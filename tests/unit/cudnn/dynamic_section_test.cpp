// Tests that ReadLibraryFile returns a library or an error for any damaged or hostile file, and
// never crashes.
#include "cudnn/dynamic_section.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

namespace ucudnn::cudnn {
namespace {

const std::string kLibrary = std::string(ROOT) + "/has_runpath/libhas_runpath.so";

std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class DamagedFile : public ::testing::Test {
 protected:
  Result<LibraryFile> Read(std::string_view bytes) {
    EXPECT_EQ(ftruncate(file_, static_cast<off_t>(bytes.size())), 0);
    EXPECT_EQ(pwrite(file_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    return ReadLibraryFile("/proc/self/fd/" + std::to_string(file_));
  }
  void TearDown() override { close(file_); }

  const int file_ = memfd_create("damaged", MFD_CLOEXEC);
  const std::string sound_ = BytesOf(kLibrary);
};

TEST(DynamicSection, OfALibraryFile) {
  const Result<LibraryFile> library = ReadLibraryFile(kLibrary);
  ASSERT_TRUE(library.ok()) << library.message();
  EXPECT_EQ(library->dynamic.soname, "libhas_runpath.so");
  EXPECT_EQ(library->dynamic.runpath, "$ORIGIN/../by_runpath");
  EXPECT_EQ(library->dynamic.rpath, "");
  EXPECT_FALSE(library->dynamic.Needs("libcudnn.so.9"));
}

TEST(DynamicSection, OfLoadedObjectsProgramFirst) {
  const std::vector<LoadedObject> objects = LoadedObjects();
  ASSERT_GT(objects.size(), 1u);
  EXPECT_EQ(objects[0].path, std::filesystem::read_symlink("/proc/self/exe"));
  EXPECT_TRUE(objects[0].dynamic.Needs("libc.so.6"));
  bool has_libc = false;
  for (const LoadedObject& object : objects) has_libc |= object.dynamic.soname == "libc.so.6";
  EXPECT_TRUE(has_libc);
}

TEST(DynamicSection, RefusesWhatIsNoLibrary) {
  EXPECT_EQ(ReadLibraryFile("/nowhere").message(), "No such file or directory");
  EXPECT_EQ(ReadLibraryFile("/tmp").message(), "is a folder, not a library");
  EXPECT_EQ(ReadLibraryFile("/dev/null").message(), "is not a regular file");
  EXPECT_EQ(ReadLibraryFile("/etc/passwd").message(), "is not a shared library for x86-64");
}

TEST_F(DamagedFile, UndamagedIsRead) { EXPECT_TRUE(Read(sound_).ok()); }

TEST_F(DamagedFile, EveryTruncationOfTheHeadersIsRefused) {
  for (size_t length = 0; length < 4096; length += 7) {
    EXPECT_FALSE(Read(std::string_view(sound_).substr(0, length)).ok()) << length;
  }
}

TEST_F(DamagedFile, RandomBytesNeverCrashTheReader) {
  const unsigned seed = 20;
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = sound_;
    // Half of the changed bytes lie in the ELF and program headers, the others in the second half
    // of the file, which has the dynamic section.
    const size_t dynamic = bytes.size() / 2;
    for (int i = 0; i < 8; ++i) {
      const size_t range = i % 2 == 0 ? 1024 : bytes.size() - dynamic;
      const size_t start = i % 2 == 0 ? 16 : dynamic;
      bytes[std::min(start + random() % range, bytes.size() - 1)] = static_cast<char>(random());
    }
    const Result<LibraryFile> library = Read(bytes);
    if (!library.ok()) {
      EXPECT_NE(library.message(), "") << "seed " << seed << " round " << round;
    }
  }
}

TEST(DynamicSection, StringsOutsideTheTableAreLeftOut) {
  const std::string_view strings("\0libx.so\0unterminated", 21);
  const auto entry = [](Elf64_Sxword tag, uint64_t value) {
    Elf64_Dyn result;
    result.d_tag = tag;
    result.d_un.d_val = value;
    return result;
  };
  const Elf64_Dyn entries[] = {entry(DT_NEEDED, 1), entry(DT_NEEDED, 9), entry(DT_NEEDED, 1u << 30),
                               entry(DT_SONAME, ~uint64_t{0})};
  const DynamicSection section = ReadDynamic(entries, strings);
  EXPECT_EQ(section.needed, std::vector<std::string>{"libx.so"});
  EXPECT_EQ(section.soname, "");
}

}  // namespace
}  // namespace ucudnn::cudnn
