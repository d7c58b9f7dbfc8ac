// Zip files that are made to mislead. What NumPy writes is read in npz_test.cpp.
#include "planner/multigrid/data/zip_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/zip_file.h"

namespace ucudnn::multigrid {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A stored and a deflated member, and where their records begin.
class ZipTest : public ::testing::Test {
 protected:
  ZipTest() { Use({{"one", "first member"}, {"two", "second member", true}}); }

  void Use(const std::vector<test::ZipPart>& parts) {
    file_ = test::ZipOf(parts);
    first_central_ = file_.find(test::kZipCentral);
    second_central_ = file_.find(test::kZipCentral, first_central_ + 1);
    second_local_ = file_.find(test::kZipLocal, 1);
    end_ = file_.rfind(test::kZipEnd);
  }
  void Put(size_t at, size_t width, uint64_t number) { test::PutNumber(file_, at, width, number); }
  // The same in the first member's header and in the directory.
  void PutInBoth(size_t of_local, size_t width, uint64_t number) {
    Put(of_local, width, number);
    Put(first_central_ + of_local + 2, width, number);
  }

  // What reading all of the file says.
  std::string Error() const {
    const MemoryBytes source("w.zip", file_);
    const auto members = ReadZipDirectory(source);
    if (!members.ok()) return members.message();
    for (const ZipMember& member : *members) {
      ZipMemberStream stream(source, member);
      std::string bytes(member.bytes, '\0');
      if (const Status read = stream.Read(bytes); !read.ok()) return read.message();
      if (const Status end = stream.Finish(); !end.ok()) return end.message();
    }
    return "";
  }

  std::string file_;
  size_t first_central_ = 0, second_central_ = 0, second_local_ = 0, end_ = 0;
};

TEST_F(ZipTest, MembersAreReadInTheOrderOfTheDirectory) {
  const MemoryBytes source("w.zip", file_);
  const auto members = ReadZipDirectory(source);
  ASSERT_TRUE(members.ok()) << members.message();
  ASSERT_EQ(members->size(), 2u);
  EXPECT_EQ((*members)[1].name, "two");
  ZipMemberStream stream(source, (*members)[1]);
  std::string bytes(13, '\0');
  EXPECT_TRUE(stream.Read(bytes).ok());
  EXPECT_TRUE(stream.Finish().ok());
  EXPECT_EQ(bytes, "second member");
}

TEST_F(ZipTest, ACommentMayFollow) {
  Put(end_ + 20, 2, 9);
  file_ += "a comment";
  EXPECT_EQ(Error(), "");
}

TEST_F(ZipTest, NoMembersAreNoError) {
  Use({});
  EXPECT_EQ(Error(), "");
}

TEST_F(ZipTest, AFileThatIsNoZipIsRefused) {
  const std::string refusal =
      "w.zip: no zip directory at its end; expected a file that numpy.savez wrote";
  for (const char* const text : {"", "PK", "\x93NUMPY and so on, but not an archive of anything"}) {
    file_ = text;
    EXPECT_EQ(Error(), refusal);
  }
}

TEST_F(ZipTest, EveryTruncationIsRefused) {
  const std::string whole = file_;
  for (size_t size = 0; size < whole.size(); ++size) {
    file_ = whole.substr(0, size);
    EXPECT_THAT(Error(), StartsWith("w.zip: ")) << size;
  }
}

TEST_F(ZipTest, ADirectoryThatDoesNotEndAtItsEndRecordIsRefused) {
  Put(end_ + 16, 4, first_central_ - 1);
  EXPECT_THAT(Error(), HasSubstr("expected it to end at byte " + std::to_string(end_)));
  Put(end_ + 16, 4, 0xfffffffe);
  EXPECT_THAT(Error(), HasSubstr("at byte 4294967294; expected it to end at byte"));
}

TEST_F(ZipTest, OtherNumbersOfEntriesThanThereAreAreRefused) {
  Put(end_ + 10, 2, 1);
  EXPECT_EQ(Error(), "w.zip: 49 bytes follow the 1 entries of its zip directory; expected none");
  Put(end_ + 10, 2, 3);
  EXPECT_EQ(Error(),
            "w.zip: 3 members in a zip directory of 98 bytes; expected at least 46 bytes "
            "for each");
}

TEST_F(ZipTest, AnEntryThatIsNoneIsRefused) {
  file_[second_central_] = 'Q';
  EXPECT_EQ(Error(),
            "w.zip: 'QK\\x01\\x02' in its zip directory; expected an entry, 'PK\\x01\\x02'");
}

TEST_F(ZipTest, AnEntryThatPassesTheDirectorysEndIsRefused) {
  Put(second_central_ + 28, 2, 0xffff);
  EXPECT_EQ(Error(), "w.zip: a zip directory that ends within an entry");
}

TEST_F(ZipTest, PartsOfAnArchiveAreRefused) {
  Put(end_ + 4, 2, 1);
  EXPECT_EQ(Error(), "w.zip: one of several files of a zip archive; expected a whole one");
}

TEST_F(ZipTest, EncryptedMembersAndOtherMethodsAreRefused) {
  PutInBoth(6, 2, 1);
  EXPECT_EQ(Error(), "w.zip: 'one': encrypted; expected plain data");
  PutInBoth(6, 2, 0);
  PutInBoth(8, 2, 14);
  EXPECT_EQ(Error(),
            "w.zip: 'one': compression method 14; expected 0 (stored) or 8 (deflated), as "
            "NumPy writes");
}

TEST_F(ZipTest, NamesThatCannotBeShownAreRefused) {
  for (const std::string& name : {std::string(), std::string("a\nb"), std::string("\0", 1)}) {
    Use({{name, "member"}});
    EXPECT_THAT(Error(), HasSubstr("expected a printable name"));
  }
}

TEST_F(ZipTest, TwoMembersOfOneNameAreRefused) {
  Use({{"K.npy", "a"}, {"b.npy", "b"}, {"K.npy", "c"}});
  EXPECT_EQ(Error(), "w.zip: two members called 'K.npy'; expected one");
}

TEST_F(ZipTest, HeadersThatContradictTheDirectoryAreRefused) {
  const std::string whole = file_;
  // Signature, method, checksum, packed and unpacked size, and the name itself.
  for (const size_t at : {0, 8, 14, 18, 22, 30}) {
    file_ = whole;
    file_[second_local_ + at] ^= 1;
    EXPECT_EQ(Error(), "w.zip: 'two': its header at byte " + std::to_string(second_local_) +
                           " and the zip directory contradict each other")
        << at;
  }
}

TEST_F(ZipTest, AHeaderOutsideTheFileIsRefused) {
  Put(second_central_ + 42, 4, 0xfffffffe);
  EXPECT_THAT(Error(), HasSubstr("expected a record of 30 at byte 4294967294"));
}

TEST_F(ZipTest, StoredSizesThatDifferAreRefused) {
  PutInBoth(22, 4, 1u << 31);
  EXPECT_EQ(Error(), "w.zip: 'one': 2147483648 bytes; expected 12, as it is stored");
}

TEST_F(ZipTest, MembersThatPassTheEndOfTheFileAreRefused) {
  PutInBoth(18, 4, 1000000);
  PutInBoth(22, 4, 1000000);
  EXPECT_THAT(Error(), HasSubstr("'one': 1000000 bytes at byte 33 of "));
}

TEST_F(ZipTest, MembersThatShareBytesAreRefused) {
  PutInBoth(18, 4, 13);
  PutInBoth(22, 4, 13);
  EXPECT_EQ(Error(), "w.zip: 'one' and 'two' share the byte " + std::to_string(second_local_) +
                         "; expected each its own");
}

TEST_F(ZipTest, AMemberThatReachesIntoTheDirectoryIsRefused) {
  Use({{"one", "first member"}});
  PutInBoth(18, 4, 13);
  PutInBoth(22, 4, 13);
  EXPECT_EQ(Error(), "w.zip: 'one' and the zip directory share the byte " +
                         std::to_string(first_central_) + "; expected each its own");
}

// Two entries of one header would unpack the same bytes twice.
TEST_F(ZipTest, EntriesThatShareAHeaderAreRefused) {
  Use({{"one", "first member"}, {"two", "first member"}});
  Put(second_central_ + 42, 4, 0);
  EXPECT_THAT(Error(), HasSubstr("expected each its own"));
}

TEST_F(ZipTest, ABombIsRefusedByItsSize) {
  Use({{"bomb", std::string(1 << 20, '\0'), true}});
  const uint64_t packed = first_central_ - 34;
  EXPECT_EQ(Error(), "");
  PutInBoth(22, 4, packed * 1033);
  EXPECT_EQ(Error(), "w.zip: 'bomb': " + std::to_string(packed * 1033) +
                         " bytes; expected at most 1032 times the " + std::to_string(packed) +
                         " that it is deflated to");
}

TEST_F(ZipTest, DeflatedDataOfAnotherLengthIsRefused) {
  Use({{"a", std::string(100, 'a'), true}});
  PutInBoth(22, 4, 99);
  EXPECT_EQ(Error(), "w.zip: 'a': its deflated data holds more bytes than expected");
  PutInBoth(22, 4, 101);
  EXPECT_EQ(Error(), "w.zip: 'a': its deflated data ends 1 bytes early");
}

TEST_F(ZipTest, DamagedDataIsRefused) {
  file_[second_local_ - 1] ^= 1;
  EXPECT_THAT(Error(), HasSubstr("'one': checksum "));
  Use({{"a", std::string(100, 'a'), true}});
  file_[31] = '\xff';
  EXPECT_THAT(Error(), StartsWith("w.zip: 'a': its deflated data cannot be inflated: "));
}

// The locator, 20 bytes in front of the end record, says where the zip64 end record is.
TEST_F(ZipTest, AZip64EndRecordElsewhereIsRefused) {
  std::ifstream golden(PLANNER_TEST_FOLDER "/npz/zip64.npz", std::ios::binary);
  file_.assign(std::istreambuf_iterator<char>(golden), {});
  end_ = file_.rfind(test::kZipEnd);
  EXPECT_EQ(Error(), "");
  const uint64_t locator = end_ - 20, record = locator - 56;
  for (const uint64_t place : {record - 1, record + 1, uint64_t{0}}) {
    Put(locator + 8, 8, place);
    EXPECT_EQ(Error(), "w.zip: no zip64 end record at byte " + std::to_string(place) +
                           "; expected one just before byte " + std::to_string(locator));
  }
  Put(locator + 8, 8, ~uint64_t{0});
  EXPECT_THAT(Error(), HasSubstr("expected a record of 56 at byte 18446744073709551615"));
}

TEST_F(ZipTest, SizesOfAMissingZip64FieldAreRefused) {
  Put(first_central_ + 24, 4, 0xffffffff);
  EXPECT_EQ(Error(), "w.zip: 'one': its sizes are missing; expected a zip64 field");
}

}  // namespace
}  // namespace ucudnn::multigrid
