#include "cudnn/loader_cache.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <random>

namespace ucudnn::cudnn {
namespace {

constexpr uint32_t kX86_64 = 0x0303;
constexpr uint32_t kI386 = 0x0003;

struct Entry {
  uint32_t flags;
  std::string name;
  std::string path;
};

void AppendWord(std::string& bytes, uint32_t word) {
  bytes.append(reinterpret_cast<const char*>(&word), sizeof word);
}

// Returns a cache in the layout of glibc's dl-cache.h: header, entries, strings.
std::string Cache(const std::vector<Entry>& entries) {
  std::string strings;
  std::string table;
  const size_t strings_start = 48 + 24 * entries.size();
  const auto place = [&](const std::string& text) {
    const size_t offset = strings_start + strings.size();
    strings += text + '\0';
    return static_cast<uint32_t>(offset);
  };
  for (const Entry& entry : entries) {
    AppendWord(table, entry.flags);
    AppendWord(table, place(entry.name));
    AppendWord(table, place(entry.path));
    table.append(12, '\0');  // the fields osversion and hwcap
  }
  std::string bytes = "glibc-ld.so.cache1.1";
  AppendWord(bytes, static_cast<uint32_t>(entries.size()));
  AppendWord(bytes, static_cast<uint32_t>(strings.size()));
  bytes.append(48 - bytes.size(), '\0');
  return bytes + table + strings;
}

const std::vector<Entry> kEntries = {{kX86_64, "liba.so.1", "/lib/liba.so.1"},
                                     {kI386, "libcudnn.so.9", "/lib32/libcudnn.so.9"},
                                     {kX86_64, "libcudnn.so.9", "/opt/x/libcudnn.so.9"},
                                     {kX86_64, "libcudnn.so.9", "/opt/y/libcudnn.so.9"},
                                     {kX86_64, "libcudnn.so.9", "relative/libcudnn.so.9"},
                                     {kX86_64, "libcudnn.so.8", "/opt/libcudnn.so.8"}};
const std::vector<std::string> kFound = {"/opt/x/libcudnn.so.9", "/opt/y/libcudnn.so.9"};

TEST(LoaderCache, FindsAllOfThisMachineInOrder) {
  EXPECT_EQ(FindInLoaderCache(Cache(kEntries), "libcudnn.so.9"), kFound);
}

TEST(LoaderCache, ReadsTheNewPartBehindTheOldOne) {
  for (const uint32_t old_entries : {0u, 1u, 2u, 3u}) {
    std::string bytes("ld.so-1.7.0\0", 12);
    AppendWord(bytes, old_entries);
    bytes.append(12 * old_entries, '\1');
    bytes.append((8 - bytes.size() % 8) % 8, '\0');
    EXPECT_EQ(FindInLoaderCache(bytes + Cache(kEntries), "libcudnn.so.9"), kFound) << old_entries;
  }
}

TEST(LoaderCache, AgreesWithThisMachinesOwnLoader) {
  std::ifstream file("/etc/ld.so.cache", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.empty()) GTEST_SKIP() << "this machine has no /etc/ld.so.cache";
  EXPECT_FALSE(FindInLoaderCache(bytes, "libc.so.6").empty());
}

TEST(LoaderCache, EveryTruncationIsRead) {
  const std::string bytes = Cache(kEntries);
  for (size_t length = 0; length < bytes.size(); ++length) {
    // `part` has exactly `length` bytes, so that a sanitizer sees any read beyond them.
    const std::vector<char> part(bytes.begin(),
                                 bytes.begin() + static_cast<std::ptrdiff_t>(length));
    const auto found = FindInLoaderCache({part.data(), part.size()}, "libcudnn.so.9");
    EXPECT_LE(found.size(), kFound.size());
  }
}

TEST(LoaderCache, HostileCountsAndOffsetsAreRead) {
  const unsigned seed = 7;
  std::mt19937 random(seed);
  std::string old_header("ld.so-1.7.0\0", 12);
  AppendWord(old_header, 0);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = (round % 2 == 0 ? "" : old_header) + Cache(kEntries);
    for (int i = 0; i < 4; ++i) {
      const size_t at = random() % (bytes.size() - 4);
      const uint32_t word = i == 0 ? ~uint32_t{0} : static_cast<uint32_t>(random());
      bytes.replace(at, 4, reinterpret_cast<const char*>(&word), 4);
    }
    const std::vector<char> exact(bytes.begin(), bytes.end());
    for (const std::string& path :
         FindInLoaderCache({exact.data(), exact.size()}, "libcudnn.so.9")) {
      EXPECT_EQ(path[0], '/') << "seed " << seed << " round " << round;
    }
  }
}

}  // namespace
}  // namespace ucudnn::cudnn
