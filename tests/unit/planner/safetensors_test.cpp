#include "planner/multigrid/data/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/made_file.h"

namespace ucudnn::multigrid {
namespace {

using test::SafetensorsOf;
using ::testing::ElementsAre;
using ::testing::StartsWith;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<NamedArray> ReadGolden(const std::string& name) {
  const auto file = DataFile::Open(PLANNER_TEST_FOLDER "/safetensors/" + name);
  EXPECT_TRUE(file.ok()) << file.message();
  if (!file.ok()) return {};
  auto arrays = ReadSafetensors(*file);
  EXPECT_TRUE(arrays.ok()) << arrays.message();
  return arrays.ok() ? *std::move(arrays) : std::vector<NamedArray>();
}

const NamedArray& Named(const std::vector<NamedArray>& arrays, const std::string& name) {
  for (const NamedArray& array : arrays) {
    if (array.name == name) return array;
  }
  ADD_FAILURE() << "no array " << name;
  static const NamedArray none;
  return none;
}

Result<std::vector<NamedArray>> ReadBytes(const std::string& bytes,
                                          uint64_t most_bytes = kMostArrayBytes) {
  const test::MadeFile made(bytes);
  const auto file = DataFile::Open(made.path());
  if (!file.ok()) return file.status();
  auto read = ReadSafetensors(*file, most_bytes);
  if (read.ok()) return read;
  EXPECT_THAT(read.message(), StartsWith(made.path() + ": "));
  return Status::Error(read.message().substr(made.path().size() + 2));
}

std::string ErrorOf(const std::string& bytes) { return ReadBytes(bytes).message(); }
// Returns the error of a file whose header has one array `a`, described by `entry`. After the
// header, the file has `values` bytes.
std::string EntryError(const std::string& entry, size_t values = 16) {
  return ErrorOf(SafetensorsOf(R"({"a": )" + entry + "}", std::string(values, '\0')));
}

// The following tests read files that the Python package safetensors has written (make_arrays.py).

TEST(Safetensors, EveryTypeBecomesDoubles) {
  const auto arrays = ReadGolden("types.safetensors");
  for (const char* const type :
       {"f8", "f4", "f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"}) {
    const NamedArray& array = Named(arrays, type);
    ASSERT_THAT(array.shape, ElementsAre(2, 3, 4)) << type;
    const double first = type[0] == 'u' ? 0 : -3;
    for (size_t i = 0; i < 24; ++i) EXPECT_EQ(array.values[i], first + static_cast<double>(i));
  }
}

TEST(Safetensors, ValuesAtTheEndsOfTypesAreKept) {
  const auto arrays = ReadGolden("types.safetensors");
  const std::vector<double> halves = {0, 0x1p-24, 1023 * 0x1p-24, 0x1p-14, 1365. / 4096,
                                      1, 65504,   kInfinity};
  for (const double sign : {1.0, -1.0}) {
    const std::vector<double>& values = Named(arrays, sign > 0 ? "half" : "minus_half").values;
    ASSERT_EQ(values.size(), halves.size() + 1);
    for (size_t i = 0; i < halves.size(); ++i) {
      EXPECT_EQ(values[i], sign * halves[i]);
      EXPECT_EQ(std::signbit(values[i]), sign < 0);
    }
    EXPECT_TRUE(std::isnan(values.back()));
  }
  const std::vector<double>& single = Named(arrays, "single").values;
  ASSERT_EQ(single.size(), 5u);
  EXPECT_EQ(single[0], 3.14159274101257324);
  EXPECT_EQ(single[1], 0x1p-149);
  EXPECT_EQ(single[2], kInfinity);
  EXPECT_EQ(single[3], -kInfinity);
  EXPECT_TRUE(std::isnan(single[4]));
  const std::vector<double>& wide = Named(arrays, "double").values;
  ASSERT_EQ(wide.size(), 5u);
  EXPECT_EQ(wide[0], 3.14159265358979312);
  EXPECT_EQ(wide[1], std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(wide[2], std::numeric_limits<double>::max());
  EXPECT_EQ(wide[3], kInfinity);
  EXPECT_TRUE(std::isnan(wide[4]));
  EXPECT_THAT(Named(arrays, "signed").values, ElementsAre(-0x1p63, -0x1p53, 0x1p63));
  EXPECT_THAT(Named(arrays, "unsigned").values, ElementsAre(0x1p53, 0x1p53, 0x1p64));
}

TEST(Safetensors, ShapesAreThoseOfTheArrays) {
  const auto arrays = ReadGolden("shapes.safetensors");
  EXPECT_THAT(Named(arrays, "scalar").shape, ElementsAre());
  EXPECT_THAT(Named(arrays, "scalar").values, ElementsAre(7.5));
  EXPECT_THAT(Named(arrays, "one").shape, ElementsAre(1));
  EXPECT_THAT(Named(arrays, "one").values, ElementsAre(2));
  EXPECT_THAT(Named(arrays, "empty").shape, ElementsAre(0, 3));
  EXPECT_TRUE(Named(arrays, "empty").values.empty());
  EXPECT_THAT(Named(arrays, "layer/kernel").values, ElementsAre(0, 1, 2));
  const NamedArray& large = Named(arrays, "large");
  EXPECT_THAT(large.shape, ElementsAre(2, 3, 4, 5));
  ASSERT_EQ(large.values.size(), 120u);
  for (size_t i = 0; i < 120; ++i) EXPECT_EQ(large.values[i], static_cast<double>(i));
  EXPECT_EQ(arrays.size(), 5u) << "what the writer says of itself is no array";
}

// The following tests write their files themselves.

TEST(Safetensors, TorchsShortFloatsAreTheUpperHalvesOfSingles) {
  const auto arrays =
      ReadBytes(SafetensorsOf({{"b", "BF16", {3}, {"\x80\x3f\x40\xc0\x80\x7f", 6}}}));
  ASSERT_TRUE(arrays.ok()) << arrays.message();
  EXPECT_THAT(arrays->front().values, ElementsAre(1, -3, kInfinity));
}

TEST(Safetensors, LargeArraysAreReadInBlocks) {
  std::vector<double> values(3 * 8192 + 5);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.5 * static_cast<double>(i);
  const auto arrays = ReadBytes(
      SafetensorsOf({test::DoublesOf("before", {1}, {-1}),
                     test::DoublesOf("a", {static_cast<int64_t>(values.size())}, values)}));
  ASSERT_TRUE(arrays.ok()) << arrays.message();
  EXPECT_EQ((*arrays)[1].values, values);
}

TEST(Safetensors, ArraysLieInAnyOrder) {
  const auto arrays = ReadBytes(SafetensorsOf(
      R"({"b": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]},
          "none": {"dtype": "F64", "shape": [0], "data_offsets": [3, 3]},
          "a": {"dtype": "I8", "shape": [], "data_offsets": [0, 1]}}     )",
      std::string("\xff\1\2", 3)));
  ASSERT_TRUE(arrays.ok()) << arrays.message();
  EXPECT_THAT((*arrays)[0].values, ElementsAre(1, 2));
  EXPECT_THAT((*arrays)[2].values, ElementsAre(-1));
}

TEST(Safetensors, WhatIsNoSuchFileIsRefused) {
  EXPECT_EQ(ErrorOf("1234567"), "7 bytes; expected a file of safetensors");
  EXPECT_EQ(ErrorOf(std::string("\x9\0\0\0\0\0\0\0{}", 10)),
            "a header of 9 bytes; expected safetensors, with at most 2 here");
  EXPECT_EQ(ErrorOf("K = 1; b = 2"),
            "a header of 7070716497151991883 bytes; expected safetensors, with at most 4 here");
  EXPECT_EQ(ErrorOf(SafetensorsOf("{]", "")), "its header is refused: no JSON at byte 2");
  EXPECT_EQ(ErrorOf(SafetensorsOf("[1]", "")), "its header is an array of 1; expected an object");
}

TEST(Safetensors, AnNpzFileIsRefusedWithWhatConvertsIt) {
  EXPECT_EQ(ErrorOf("PK\3\4 and so on"),
            "a zip file, as NumPy's npz is; expected safetensors, which "
            "safetensors.numpy.save_file(dict(numpy.load(NPZ)), FILE) makes of it");
}

TEST(Safetensors, SpoiltEntriesAreRefused) {
  EXPECT_EQ(EntryError("3"), "'a' is 3; expected an object");
  EXPECT_EQ(EntryError(R"({"shape": [2], "data_offsets": [0, 16]})"),
            "'a'.dtype is missing; expected text");
  EXPECT_EQ(EntryError(R"({"dtype": "C64", "shape": [2], "data_offsets": [0, 16]})"),
            "'a'.dtype is 'C64'; expected one of F64, F32, F16, BF16, I64, I32, I16, I8, U64, U32, "
            "U16, U8");
  EXPECT_EQ(EntryError(R"({"dtype": "F64", "data_offsets": [0, 16]})"),
            "'a'.shape is missing; expected a list");
  EXPECT_EQ(EntryError(R"({"dtype": "F64", "shape": [-2], "data_offsets": [0, 16]})"),
            "'a'.shape[0] is -2; expected a whole number from 0 to 9223372036854775807");
  EXPECT_EQ(EntryError(R"({"dtype": "F64", "shape": [2], "data_offsets": [0]})"),
            "'a'.data_offsets is an array of 1; expected two whole numbers");
  EXPECT_EQ(EntryError(R"({"dtype": "F64", "shape": [2], "data_offsets": [0, 17]})"),
            "'a'.data_offsets[1] is 17; expected a whole number from 0 to 16");
  EXPECT_EQ(EntryError(R"({"dtype": "F64", "shape": [2], "data_offsets": [8, 0]})"),
            "'a'.data_offsets[1] is 0; expected a whole number from 8 to 16");
  EXPECT_EQ(EntryError(R"({"dtype": "F64", "shape": [3], "data_offsets": [0, 16]})"),
            "'a' has 16 bytes of values; expected [3] values of 8 bytes each");
  EXPECT_EQ(EntryError(R"({"dtype": "F64", "shape": [], "data_offsets": [0, 16]})"),
            "'a' has 16 bytes of values; expected [] values of 8 bytes each");
  EXPECT_EQ(
      EntryError(R"({"dtype": "F64", "shape": [4294967296, 4294967296], "data_offsets": [0, 16]})"),
      "'a' has 16 bytes of values; expected [4294967296, 4294967296] values of 8 bytes each");
  EXPECT_EQ(EntryError(R"({"dtype": "U8", "shape": [16], "data_offsets": [0, 16]}, "a": 1)"),
            "its header is refused: 'a' is there twice");
}

TEST(Safetensors, EveryByteIsOfOneArray) {
  const std::string first = R"({"dtype": "U8", "shape": [8], "data_offsets": [0, 8]})";
  EXPECT_EQ(EntryError(first), "16 bytes behind the header; expected the 8 of its arrays");
  EXPECT_EQ(
      EntryError(first + R"(, "b": {"dtype": "U8", "shape": [7], "data_offsets": [9, 16]})"),
      "an array begins at byte 9 behind the header; expected 8, where the one before it ends");
  EXPECT_EQ(
      EntryError(first + R"(, "b": {"dtype": "U8", "shape": [9], "data_offsets": [7, 16]})"),
      "an array begins at byte 7 behind the header; expected 8, where the one before it ends");
}

TEST(Safetensors, MoreThanTheLimitIsRefused) {
  const std::string bytes = SafetensorsOf(
      {{"a", "U8", {60}, std::string(60, 'a')}, {"b", "U8", {40}, std::string(40, 'b')}});
  EXPECT_TRUE(ReadBytes(bytes, 800).ok());
  EXPECT_EQ(ReadBytes(bytes, 799).message(),
            "'b': 40 values; expected at most 39, which is what the limit leaves for it");
}

TEST(Safetensors, AFileThatBecomesShorterWhileItIsReadIsRefused) {
  const std::string path = ::testing::TempDir() + "/safetensors_test.safetensors";
  std::ofstream(path, std::ios::binary) << SafetensorsOf({test::DoublesOf("a", {2}, {1, 2})});
  const auto file = DataFile::Open(path);
  ASSERT_TRUE(file.ok());
  std::filesystem::resize_file(path, file->size() - 8);
  EXPECT_EQ(ReadSafetensors(*file).message(),
            path + ": " + std::to_string(file->size() - 8) + " bytes; expected 8 more");
  std::filesystem::remove(path);
}

TEST(Safetensors, AMissingFileIsNamed) {
  EXPECT_EQ(DataFile::Open("/nowhere/w.safetensors").message(),
            "/nowhere/w.safetensors: cannot be opened: No such file or directory");
  EXPECT_EQ(DataFile::Open("/dev/null").message(), "/dev/null: no regular file; expected a file");
}

}  // namespace
}  // namespace ucudnn::multigrid
