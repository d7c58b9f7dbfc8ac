// The stand-in exports what the genuine library exports, under the same version node: a binary
// linked with one starts with the other.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>

namespace {

using Names = std::set<std::string>;

// Exported functions, as NAME@@NODE.
Names ExportsOf(const std::string& library) {
  const std::string command = "nm -D --defined-only '" + library + "'";
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  Names names;
  std::array<char, 512> line;
  while (pipe && std::fgets(line.data(), line.size(), pipe.get()) != nullptr) {
    char kind = 0;
    char name[400];
    if (std::sscanf(line.data(), "%*s %c %399s", &kind, name) == 2 && kind != 'A')
      names.insert(name);
  }
  return names;
}

TEST(Exports, AreTheGenuineLibrarysWithTheirVersionNodes) {
  if (!std::filesystem::exists(GENUINE_CUDNN)) GTEST_SKIP() << "no genuine cuDNN at " GENUINE_CUDNN;
  const Names genuine = ExportsOf(GENUINE_CUDNN);
  ASSERT_GT(genuine.size(), 200u) << "nm found no exports";
  EXPECT_EQ(ExportsOf(STANDIN_CUDNN), genuine);
}

TEST(Exports, AreTheCommittedList) {
  Names committed;
  std::ifstream list(EXPORT_LIST);
  for (std::string name; std::getline(list, name);) {
    if (!name.empty() && name[0] != '#') committed.insert(name + "@@libcudnn.so.9");
  }
  EXPECT_EQ(ExportsOf(STANDIN_CUDNN), committed);
}

}  // namespace
