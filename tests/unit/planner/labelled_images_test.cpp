#include "planner/multigrid/data/labelled_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/made_file.h"

namespace ucudnn::multigrid {
namespace {

using ::testing::ElementsAre;

std::string Idx(uint32_t magic, std::initializer_list<uint32_t> extents, std::string_view values) {
  std::string bytes;
  const auto add = [&](uint32_t number) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  };
  add(magic);
  for (const uint32_t extent : extents) add(extent);
  return bytes + std::string(values);
}

const std::string& SmallImages() {
  static const auto* const bytes =
      new std::string(Idx(0x803, {2, 2, 3}, std::string_view("\0\1\2\3\4\5\6\7\10\11\12\377", 12)));
  return *bytes;
}

// Returns the error of `read` for a file of these bytes. In the error, `name` replaces the path.
std::string ErrorOf(const std::string& bytes, const auto& read, const std::string& name) {
  const test::MadeFile file(bytes);
  const std::string message = read(file.path()).message();
  EXPECT_THAT(message, ::testing::StartsWith(file.path() + ": "));
  return name + message.substr(file.path().size());
}
std::string ImageError(const std::string& bytes) { return ErrorOf(bytes, ReadIdxImages, "images"); }
std::string LabelError(const std::string& bytes) { return ErrorOf(bytes, ReadIdxLabels, "labels"); }

TEST(IdxFile, ImagesAreReadRowByRow) {
  for (const std::string& bytes : {SmallImages(), test::GzipOf(SmallImages())}) {
    const auto images = ReadIdxImages(test::MadeFile(bytes).path());
    ASSERT_TRUE(images.ok()) << images.message();
    EXPECT_EQ(images->count, 2);
    EXPECT_EQ(images->rows, 2);
    EXPECT_EQ(images->columns, 3);
    EXPECT_THAT(images->pixels, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255));
  }
}

TEST(IdxFile, LabelsAreRead) {
  const auto labels = ReadIdxLabels(test::MadeFile(Idx(0x801, {3}, {"\0\11\4", 3})).path());
  ASSERT_TRUE(labels.ok()) << labels.message();
  EXPECT_THAT(*labels, ElementsAre(0, 9, 4));
}

TEST(IdxFile, AnotherMagicNumberIsRefused) {
  EXPECT_EQ(LabelError(SmallImages()),
            "labels: magic number 0x00000803; expected 0x00000801, that of IDX files of labels");
  EXPECT_EQ(ImageError(Idx(0xd03, {1, 1, 1}, "abcd")),
            "images: magic number 0x00000d03; expected 0x00000803, that of IDX files of images");
}

TEST(IdxFile, ASizeThatTheHeaderDoesNotSayIsRefused) {
  EXPECT_EQ(ImageError(SmallImages().substr(0, 27)),
            "images: 27 bytes; expected 28 for its header and 2 x 2 x 3 values");
  EXPECT_EQ(ImageError(SmallImages() + "x"),
            "images: 29 bytes; expected 28 for its header and 2 x 2 x 3 values");
  EXPECT_EQ(LabelError(""),
            "labels: 0 bytes; expected more than the 8 of an IDX file's header, with labels");
  EXPECT_EQ(LabelError(Idx(0x801, {}, "abc")),
            "labels: 7 bytes; expected more than the 8 of an IDX file's header, with labels");
}

TEST(IdxFile, NoImagesAreRefused) {
  EXPECT_EQ(ImageError(Idx(0x803, {2, 0, 3}, "")),
            "images: 2 x 0 x 3 values; expected at least one");
}

TEST(IdxFile, ExtentsWhoseProductOverflowsAreRefused) {
  const uint32_t most = 0xffffffff;
  EXPECT_EQ(ImageError(Idx(0x803, {most, most, most}, "abcd")),
            "images: 4294967295 x 4294967295 x 4294967295 values; expected at most 17179869184");
  EXPECT_EQ(ImageError(Idx(0x803, {1u << 16, 1u << 16, 1}, "")),
            "images: 16 bytes; expected 4294967312 for its header and 65536 x 65536 x 1 values");
}

TEST(IdxFile, ACompressedSizeThatCannotBeIsRefused) {
  const std::string bytes = test::GzipOf(Idx(0x801, {1u << 30}, "abc"));
  EXPECT_EQ(LabelError(bytes), "labels: " + std::to_string(bytes.size()) +
                                   " bytes; expected compressed 1073741832 for its header and "
                                   "1073741824 values");
}

TEST(IdxFile, CompressedDataThatIsDamagedIsRefused) {
  std::string bytes = test::GzipOf(SmallImages());
  // Cuts the file off before the gzip trailer's checksum, between this and the trailer's length
  // field, and within the length field.
  for (const size_t missing : {8, 4, 1}) {
    EXPECT_EQ(ImageError(bytes.substr(0, bytes.size() - missing)),
              "images: its compressed data is truncated");
  }
  EXPECT_EQ(ImageError(bytes.substr(0, bytes.size() - 12)),
            "images: its compressed data is truncated");
  EXPECT_EQ(ImageError(test::GzipOf(SmallImages() + "x")),
            "images: holds more bytes than its header says");
  EXPECT_EQ(ImageError(test::GzipOf(SmallImages().substr(0, 25))), "images: 3 bytes are missing");
  bytes[bytes.size() - 6] ^= 1;
  EXPECT_EQ(ImageError(bytes), "images: its compressed data is damaged");
}

TEST(IdxFile, ALabelBeyondNineIsRefused) {
  EXPECT_EQ(LabelError(Idx(0x801, {3}, {"\1\12\377", 3})),
            "labels: label 10 of image 1; expected 0 to 9");
}

// Makes a folder with a small data set, and removes it with its contents.
class DataSetTest : public ::testing::Test {
 protected:
  DataSetTest() {
    std::filesystem::create_directories(folder_);
    Write("train-images-idx3-ubyte", SmallImages());
    Write("train-labels-idx1-ubyte", Idx(0x801, {2}, "\1\2"));
    Write("t10k-images-idx3-ubyte.gz", test::GzipOf(Idx(0x803, {1, 2, 3}, "abcdef")));
    Write("t10k-labels-idx1-ubyte", Idx(0x801, {1}, "\3"));
  }
  ~DataSetTest() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << bytes;
  }
  std::string Error() const { return LoadDataSet(folder_).message(); }

  const std::string folder_ = ::testing::TempDir() + "/labelled_images_test";
};

TEST_F(DataSetTest, FilesArePlainOrCompressed) {
  const auto data = LoadDataSet(folder_);
  ASSERT_TRUE(data.ok()) << data.message();
  EXPECT_THAT(data->training.labels, ElementsAre(1, 2));
  EXPECT_EQ(data->training.images.count, 2);
  EXPECT_THAT(data->test.images.pixels, ElementsAre('a', 'b', 'c', 'd', 'e', 'f'));
  EXPECT_EQ(data->full_scale, 255);
}

TEST_F(DataSetTest, AFileThatIsMissingIsNamed) {
  std::filesystem::remove(folder_ + "/t10k-labels-idx1-ubyte");
  EXPECT_EQ(Error(), folder_ +
                         "/t10k-labels-idx1-ubyte: cannot be opened: No such file or directory; "
                         "expected it or t10k-labels-idx1-ubyte.gz, two of the names of MNIST's "
                         "files");
}

TEST_F(DataSetTest, AFolderInPlaceOfAFileIsRefused) {
  std::filesystem::remove(folder_ + "/train-images-idx3-ubyte");
  std::filesystem::create_directory(folder_ + "/train-images-idx3-ubyte");
  EXPECT_EQ(Error(), folder_ + "/train-images-idx3-ubyte: a folder; expected a file");
}

TEST_F(DataSetTest, OtherNumbersOfLabelsThanOfImagesAreRefused) {
  Write("train-labels-idx1-ubyte", Idx(0x801, {3}, "\1\2\3"));
  EXPECT_EQ(Error(), folder_ +
                         "/train-labels-idx1-ubyte: 3 labels; expected 2, one for each image of " +
                         folder_ + "/train-images-idx3-ubyte");
}

TEST_F(DataSetTest, TestImagesOfAnotherSizeAreRefused) {
  Write("t10k-images-idx3-ubyte", Idx(0x803, {1, 3, 2}, "abcdef"));
  EXPECT_EQ(Error(),
            folder_ + ": test images of 3 x 2 pixels; expected 2 x 3 as the training images have");
}

TEST_F(DataSetTest, ImagesWithoutALitPixelAreRefused) {
  Write("train-images-idx3-ubyte", Idx(0x803, {2, 2, 3}, std::string(12, '\0')));
  EXPECT_EQ(Error(), folder_ + ": every pixel of the training images is 0; expected images");
}

// The expected counts of digits and the largest pixel were published with the data set.
TEST(Digits, AreAllOfThePublishedOnes) {
  const auto data = LoadDataSet(PLANNER_TEST_FOLDER "/digits");
  ASSERT_TRUE(data.ok()) << data.message();
  EXPECT_EQ(data->training.images.count + data->test.images.count, 1797);
  EXPECT_EQ(data->training.images.rows, 8);
  EXPECT_EQ(data->training.images.columns, 8);
  EXPECT_EQ(data->full_scale, 16);
  const int published[] = {178, 182, 177, 183, 181, 182, 181, 179, 174, 180};
  for (uint8_t digit = 0; digit < kLabels; ++digit) {
    const auto occurrences = [&](const LabelledImages& part) {
      return std::count(part.labels.begin(), part.labels.end(), digit);
    };
    EXPECT_EQ(occurrences(data->training) + occurrences(data->test), published[digit]);
    EXPECT_EQ(occurrences(data->test), published[digit] / 5);
  }
}

}  // namespace
}  // namespace ucudnn::multigrid
