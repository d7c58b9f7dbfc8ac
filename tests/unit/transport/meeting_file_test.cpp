#include "transport/meeting_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace ucudnn::transport {
namespace {

using ::testing::HasSubstr;

class MeetingFileTest : public ::testing::Test {
 protected:
  MeetingFileTest() {
    std::string pattern = ::testing::TempDir() + "/meeting_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/place";
  }
  ~MeetingFileTest() override { std::filesystem::remove_all(folder_); }
  void WriteText(const std::string& text, mode_t mode = 0600) const {
    std::ofstream(path_) << text;
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
  }
  std::string Refusal() const {
    const auto file = ReadMeetingFile(path_);
    return file.ok() ? "none" : file.message();
  }
  std::string folder_, path_;
};

TEST_F(MeetingFileTest, ComesBackAsItWasWritten) {
  ASSERT_TRUE(WriteMeetingFile(path_, {{"name", "10.0.0.1", "fd00::1"}, 1234, "abc"}).ok());
  const auto file = ReadMeetingFile(path_);
  ASSERT_TRUE(file.ok() && file.value()) << file.message();
  EXPECT_THAT(file.value()->hosts, ::testing::ElementsAre("name", "10.0.0.1", "fd00::1"));
  EXPECT_EQ(file.value()->port, 1234);
  EXPECT_EQ(file.value()->token, "abc");
}

TEST_F(MeetingFileTest, IsItsOwnersAloneAndNothingElseIsLeft) {
  const mode_t before = umask(0);
  ASSERT_TRUE(WriteMeetingFile(path_, {{"name"}, 1, "abc"}).ok());
  umask(before);
  struct stat facts = {};
  ASSERT_EQ(stat(path_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0600u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(MeetingFileTest, NoneOrAnEmptyOneIsNotYetWritten) {
  EXPECT_TRUE(ReadMeetingFile(path_).ok());
  EXPECT_FALSE(ReadMeetingFile(path_).value());
  WriteText("");
  EXPECT_TRUE(ReadMeetingFile(path_).ok());
  EXPECT_FALSE(ReadMeetingFile(path_).value());
}

TEST_F(MeetingFileTest, AnyModeThatLetsOthersInIsRefused) {
  ASSERT_TRUE(WriteMeetingFile(path_, {{"name"}, 1, "abc"}).ok());
  for (const mode_t mode : {0640, 0604, 0620, 0602, 0601, 0610, 0666}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    EXPECT_THAT(Refusal(), HasSubstr("has mode 0" + std::to_string(mode >> 6 & 7) +
                                     std::to_string(mode >> 3 & 7) + std::to_string(mode & 7)));
  }
}

TEST_F(MeetingFileTest, ALinkIsNotFollowedAndAFolderIsNoFile) {
  ASSERT_TRUE(WriteMeetingFile(path_ + "2", {{"name"}, 1, "abc"}).ok());
  ASSERT_EQ(symlink((path_ + "2").c_str(), path_.c_str()), 0);
  EXPECT_THAT(Refusal(), HasSubstr("cannot be opened"));
  ASSERT_EQ(unlink(path_.c_str()), 0);
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  EXPECT_THAT(Refusal(), HasSubstr("is no regular file"));
}

TEST_F(MeetingFileTest, APipeNeitherBlocksNorIsAFile) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(Refusal(), HasSubstr("is no regular file"));
}

TEST_F(MeetingFileTest, WhatItDidNotWriteIsRefused) {
  const std::string good = "ucudnn rendezvous 1\nhost a\nport 1\ntoken b\n";
  WriteText(good);
  EXPECT_EQ(Refusal(), "none");
  for (const std::string& text :
       {std::string("my diary\n"), good + "x", good + "more 1\n", good.substr(0, good.size() - 1),
        std::string("ucudnn rendezvous 2\nhost a\nport 1\ntoken b\n"),
        std::string("ucudnn rendezvous 1\nhost a\nport 0\ntoken b\n"),
        std::string("ucudnn rendezvous 1\nhost a\nport 65536\ntoken b\n"),
        std::string("ucudnn rendezvous 1\nhost a\nport 1\nport 1\n"),
        std::string("ucudnn rendezvous 1\nhost a\nport 1\ntoken \n"), std::string(1 << 20, 'a')}) {
    WriteText(text);
    EXPECT_THAT(Refusal(), HasSubstr("holds something else")) << text.substr(0, 80);
  }
}

TEST_F(MeetingFileTest, AFolderThatIsNotThereIsAnError) {
  path_ = folder_ + "/missing/place";
  EXPECT_THAT(Refusal(), HasSubstr("lies in no usable folder"));
  EXPECT_THAT(WriteMeetingFile(path_, {{"a"}, 1, "b"}).message(), HasSubstr("cannot be written"));
}

TEST_F(MeetingFileTest, OnlyTheJobsOwnFileIsRemoved) {
  ASSERT_TRUE(WriteMeetingFile(path_, {{"name"}, 1, "abc"}).ok());
  RemoveMeetingFile(path_, "abd");
  EXPECT_TRUE(std::filesystem::exists(path_));
  RemoveMeetingFile(path_, "abc");
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST(RandomToken, IsLongAndNeverTheSame) {
  const Result<std::string> one = RandomToken(), other = RandomToken();
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(one->size(), 32u);
  EXPECT_NE(*one, *other);
}

}  // namespace
}  // namespace ucudnn::transport
