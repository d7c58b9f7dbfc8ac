// Tests a program that runs convolutions while the disk is full, or on a file system without locks.
// Its results stay right, it keeps running, and the store keeps its rows.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "db/inspection.h"
#include "layer.h"
#include "libraries.h"
#include "report_file.h"
#include "suites.h"

namespace {
std::atomic<bool> no_locks = false;
std::atomic<int> refused_locks = 0;

int Fcntl(int file, int command, void* argument) {
  if (no_locks && (command == F_SETLK || command == F_SETLKW) &&
      static_cast<const struct flock*>(argument)->l_type != F_UNLCK) {
    ++refused_locks;
    errno = ENOLCK;
    return -1;
  }
  return static_cast<int>(syscall(SYS_fcntl, file, command, argument));
}
}  // namespace

// Defines the functions that this program and libucudnn.so call in place of glibc's fcntl.
#define FCNTL(name)                                                                        \
  extern "C" __attribute__((visibility("default"))) int name(int file, int command, ...) { \
    va_list arguments;                                                                     \
    va_start(arguments, command);                                                          \
    void* const argument = va_arg(arguments, void*);                                       \
    va_end(arguments);                                                                     \
    return Fcntl(file, command, argument);                                                 \
  }
FCNTL(fcntl)
FCNTL(fcntl64)

namespace ucudnn::test {
namespace {

// Makes the layer with `n` images, and runs it twice.
void RunLayer(Operation operation, int n) {
  SCOPED_TRACE(std::string(OperationName(operation)) + " of " + std::to_string(n));
  Convolution convolution(LayerProblem(operation, n));
  const Bytes expected = convolution.FillAndExpect(51);
  const GuardedMemory workspace(1 << 16);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(convolution.Run(DropIn(), 0, workspace.data(), workspace.bytes()),
              CUDNN_STATUS_SUCCESS);
    EXPECT_TRUE(convolution.OutputEquals(expected, convolution.TakeOutput()));
  }
}

std::string Text(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Expects that the store is not damaged. Returns the number of its rows.
size_t StoredRows() {
  const auto contents = db::Inspect(DatabasePath());
  EXPECT_TRUE(contents.ok()) << contents.message();
  if (!contents.ok()) return 0;
  EXPECT_TRUE(contents->faults.empty()) << contents->faults.front();
  return contents->rows;
}

std::set<std::string> FilesLike(const std::string& part) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(Folder())) {
    const std::string name = entry.path().filename();
    if (name.find(part) != std::string::npos) names.insert(name);
  }
  return names;
}

// While an object of this class lives, files that the process writes cannot exceed `bytes` bytes.
class NoRoomBeyond {
 public:
  explicit NoRoomBeyond(size_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~NoRoomBeyond() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_;
};

class FullDisk : public testing::Test {};

TEST_F(FullDisk, TheProgramGoesOnAndWhatWasWrittenStays) {
  for (const Operation operation : kOperations) RunLayer(operation, 2);
  const std::string report = Text(ReportPath());
  const size_t rows = StoredRows();
  EXPECT_GT(rows, 0u);
  int n = 3;
  for (const size_t room : {size_t{0}, size_t{1}, size_t{512}, report.size()}) {
    SCOPED_TRACE("room for " + std::to_string(room));
    const NoRoomBeyond limit(room);
    for (const Operation operation : kOperations) RunLayer(operation, n);
    EXPECT_EQ(Text(ReportPath()), report);
    EXPECT_EQ(FilesLike("report"), std::set<std::string>{"report.json"});
    ++n;
  }
  EXPECT_EQ(StoredRows(), rows);
  EXPECT_EQ(FilesLike(".db").size(), 1u) << "a full disk was taken for damage";
  // The disk has room again: the report has all kernels, and new measurements are stored.
  RunLayer(Operation::kForward, n);
  EXPECT_EQ(ReadReport()["kernels"].size(), 3u * (n - 2) + 1);
  EXPECT_GT(StoredRows(), rows);
}

class NoLocks : public testing::Test {};

TEST_F(NoLocks, TheStoreIsGivenUpAtOnceAndMeasurementsLiveInMemory) {
  RunLayer(Operation::kForward, 2);
  const size_t rows = StoredRows();
  EXPECT_GT(rows, 0u);
  no_locks = true;
  for (const Operation operation : kOperations) RunLayer(operation, 4);
  const long measured = ReadReport()["measured"];
  for (const Operation operation : kOperations) RunLayer(operation, 4);
  EXPECT_EQ(ReadReport()["measured"], measured);
  no_locks = false;
  EXPECT_GT(measured, static_cast<long>(rows));
  EXPECT_GT(refused_locks, 0);
  EXPECT_LE(refused_locks, 200) << "somebody waits for what nobody holds";
  EXPECT_EQ(StoredRows(), rows);
  const std::vector<std::string> lines = LogLines();
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [](const std::string& line) {
                            return line.find("measurements cannot be stored") !=
                                       std::string::npos &&
                                   line.find("no locks (ENOLCK)") != std::string::npos;
                          }),
            1);
  EXPECT_LE(lines.size(), 2u) << lines.back();
  RunLayer(Operation::kForward, 8);
  EXPECT_GT(StoredRows(), rows);
}

}  // namespace
}  // namespace ucudnn::test

int main(int argc, char** argv) {
  return ucudnn::test::RunSuites(argc, argv, {{"FullDisk", {}}, {"NoLocks", {}}});
}
