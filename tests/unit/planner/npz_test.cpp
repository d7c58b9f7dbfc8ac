#include "planner/multigrid/data/npz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/zip_file.h"

namespace ucudnn::multigrid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<NpzArray> ReadGolden(const std::string& name) {
  const auto file = OpenByteSource(PLANNER_TEST_FOLDER "/npz/" + name);
  if (!file.ok()) ADD_FAILURE() << file.message();
  auto arrays = ReadNpz(**file);
  if (!arrays.ok()) ADD_FAILURE() << arrays.message();
  return arrays.ok() ? *std::move(arrays) : std::vector<NpzArray>();
}

const NpzArray& Named(const std::vector<NpzArray>& arrays, const std::string& name) {
  for (const NpzArray& array : arrays) {
    if (array.name == name) return array;
  }
  ADD_FAILURE() << "no array " << name;
  static const NpzArray none;
  return none;
}

std::vector<double> From(double first, size_t count) {
  std::vector<double> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

std::string ErrorOf(const std::string& npy) {
  const std::string file = test::ZipOf({{"a.npy", npy}});
  return ReadNpz(MemoryBytes("w.npz", file)).message();
}

std::string ErrorOfHeader(const std::string& header, const std::string& values = "") {
  return ErrorOf(test::NpyOf(header, values));
}

TEST(Npz, EveryTypeBecomesDoubles) {
  for (const char* const file : {"types.npz", "types_compressed.npz"}) {
    const auto arrays = ReadGolden(file);
    for (const char* const type :
         {"f8", "f4", "f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"}) {
      const NpzArray& array = Named(arrays, type);
      EXPECT_THAT(array.shape, ElementsAre(2, 3, 4)) << type;
      EXPECT_EQ(array.values, From(type[0] == 'u' ? 0 : -3, 24)) << type;
    }
  }
}

TEST(Npz, ValuesAtTheEndsOfTypesAreKept) {
  const auto arrays = ReadGolden("types.npz");
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> half = Named(arrays, "half").values;
  ASSERT_EQ(half.size(), 9u);
  EXPECT_TRUE(std::isnan(half.back()));
  half.pop_back();
  // A third is nearest to 1365 / 4096 in ten bits of fraction.
  EXPECT_THAT(half,
              ElementsAre(0, 0x1p-24, 1023 * 0x1p-24, 0x1p-14, 1365.0 / 4096, 1, 65504, infinity));
  const std::vector<double>& minus = Named(arrays, "minus_half").values;
  EXPECT_TRUE(std::signbit(minus[0]));
  EXPECT_EQ(minus[6], -65504);
  EXPECT_EQ(minus[7], -infinity);
  const std::vector<double>& single = Named(arrays, "single").values;
  EXPECT_EQ(single[0], static_cast<double>(static_cast<float>(M_PI)));
  EXPECT_EQ(single[1], 0x1p-149);
  EXPECT_EQ(single[3], -infinity);
  EXPECT_TRUE(std::isnan(single[4]));
  const std::vector<double>& whole = Named(arrays, "double").values;
  EXPECT_EQ(whole[0], M_PI);
  EXPECT_EQ(whole[1], std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(whole[2], std::numeric_limits<double>::max());
  EXPECT_THAT(Named(arrays, "signed").values, ElementsAre(-0x1p63, -0x1p53, 0x1p63));
  EXPECT_THAT(Named(arrays, "unsigned").values, ElementsAre(0x1p53, 0x1p53, 0x1p64));
}

TEST(Npz, ShapesAndOrdersAreThoseOfTheArrays) {
  for (const char* const file : {"shapes.npz", "piped.npz", "zip64.npz"}) {
    SCOPED_TRACE(file);
    const auto arrays = ReadGolden(file);
    EXPECT_EQ(arrays.size(), 7u);
    EXPECT_THAT(Named(arrays, "scalar").shape, IsEmpty());
    EXPECT_THAT(Named(arrays, "scalar").values, ElementsAre(7.5));
    EXPECT_THAT(Named(arrays, "one").shape, ElementsAre(1));
    EXPECT_THAT(Named(arrays, "one").values, ElementsAre(2));
    EXPECT_THAT(Named(arrays, "empty").shape, ElementsAre(0, 3));
    EXPECT_THAT(Named(arrays, "empty").values, IsEmpty());
    EXPECT_THAT(Named(arrays, "layer/kernel").values, ElementsAre(0, 1, 2));
    for (const char* const order : {"c", "fortran"}) {
      EXPECT_THAT(Named(arrays, order).shape, ElementsAre(2, 3, 4, 5));
      EXPECT_EQ(Named(arrays, order).values, From(0, 120)) << order;
    }
    EXPECT_THAT(Named(arrays, "fortran_matrix").shape, ElementsAre(8, 15));
    EXPECT_EQ(Named(arrays, "fortran_matrix").values, From(0, 120));
  }
}

TEST(Npz, EveryVersionOfHeadersIsRead) {
  const auto arrays = ReadGolden("versions.npz");
  for (const char* const version : {"v1", "v2", "v3"}) {
    EXPECT_THAT(Named(arrays, version).shape, ElementsAre(2, 3));
    EXPECT_EQ(Named(arrays, version).values, From(0, 6));
  }
}

// More than one block of what is read at a time, deflated and not.
TEST(Npz, LargeArraysAreReadInBlocks) {
  for (const bool deflated : {false, true}) {
    const std::vector<double> values = From(0, 50000);
    const std::string file = test::ZipOf({{"a.npy", test::NpyOf({50000}, values), deflated}});
    const auto arrays = ReadNpz(MemoryBytes("w.npz", file));
    ASSERT_TRUE(arrays.ok()) << arrays.message();
    EXPECT_EQ(arrays->front().values, values);
  }
}

TEST(Npz, HeadersAreLiteralsOfPython) {
  const std::string file = test::ZipOf(
      {{"a.npy", test::NpyOf("{ \"shape\" :( 2L ,1 ) ,\"fortran_order\": True, 'descr': '|u1'}  ",
                             "\1\2")}});
  const auto arrays = ReadNpz(MemoryBytes("w.npz", file));
  ASSERT_TRUE(arrays.ok()) << arrays.message();
  EXPECT_THAT(arrays->front().shape, ElementsAre(2, 1));
  EXPECT_THAT(arrays->front().values, ElementsAre(1, 2));
}

TEST(Npz, OtherTypesAreRefused) {
  EXPECT_EQ(ErrorOfHeader("{'descr': '>f8', 'fortran_order': False, 'shape': (1,), }", "12345678"),
            "w.npz: 'a.npy': values of type '>f8'; expected '<f8', '<f4', '<f2' or whole numbers "
            "of low byte first");
  EXPECT_THAT(ErrorOfHeader("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"),
              HasSubstr("values of type '|O'; expected"));
  EXPECT_THAT(ErrorOfHeader("{'descr': [('x', '<f8')], 'fortran_order': False, 'shape': (1,), }"),
              HasSubstr("an array of records; expected one of numbers"));
}

TEST(Npz, SpoiltHeadersAreRefused) {
  EXPECT_EQ(
      ErrorOfHeader("{'descr': '<f8', 'fortran_order': 0, 'shape': (1,), }"),
      "w.npz: 'a.npy': header '{'descr': '<f8', 'fortran_order': 0, 'shape': (1,), }\\x0a' at "
      "character 33; expected 'False'");
  EXPECT_THAT(ErrorOfHeader("{'descr': '<f8', 'fortran_order': False, }"),
              HasSubstr("expected an entry 'shape'"));
  EXPECT_THAT(ErrorOfHeader("{'shape': (1,), 'shape': (1,), }"),
              HasSubstr("header entry 'shape'; expected 'descr', 'fortran_order' and 'shape', each "
                        "once"));
  EXPECT_THAT(ErrorOfHeader("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }"),
              HasSubstr("expected a whole number from 0 to 2^63 - 1"));
  EXPECT_THAT(ErrorOfHeader("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), } x"),
              HasSubstr("expected nothing but space"));
  EXPECT_THAT(ErrorOfHeader("{'descr': '<f8"), HasSubstr("expected a string that ends"));
  EXPECT_THAT(ErrorOfHeader(""), HasSubstr("expected '{'"));
}

TEST(Npz, WhatIsNoArrayIsRefused) {
  EXPECT_EQ(ErrorOf("text and more"),
            "w.npz: 'a.npy': begins with 'text a'; expected a .npy array, '\\x93NUMPY'");
  EXPECT_EQ(ErrorOf(std::string("\x93NUMPY\4\0\1\0 ", 11)),
            "w.npz: 'a.npy': .npy version 4.0; expected 1.0, 2.0 or 3.0");
  EXPECT_EQ(ErrorOf("\x93NUM"), "w.npz: 'a.npy': 4 bytes are left; expected 8");
  EXPECT_EQ(ErrorOf(std::string("\x93NUMPY\2\0\xff\xff\xff\x7f ", 13)),
            "w.npz: 'a.npy': a header of 2147483647 bytes; expected at most 10000");
  EXPECT_EQ(ErrorOf(std::string("\x93NUMPY\1\0\x76\0 ", 11)),
            "w.npz: 'a.npy': 1 bytes are left; expected 118");
  const std::string file = test::ZipOf({{"a.txt", "text"}});
  EXPECT_EQ(ReadNpz(MemoryBytes("w.npz", file)).message(),
            "w.npz: 'a.txt': no array; expected NAME.npy, as numpy.savez writes");
}

TEST(Npz, OtherNumbersOfValuesThanTheShapesAreRefused) {
  const std::string with_shape = "{'descr': '<f8', 'fortran_order': True, 'shape': ";
  EXPECT_EQ(ErrorOfHeader(with_shape + "(2, 1), }", std::string(24, '\0')),
            "w.npz: 'a.npy': 24 bytes of values; expected [2, 1] values of 8 bytes each");
  EXPECT_EQ(ErrorOfHeader(with_shape + "(2, 1), }", std::string(12, '\0')),
            "w.npz: 'a.npy': 12 bytes of values; expected [2, 1] values of 8 bytes each");
  EXPECT_EQ(ErrorOfHeader(with_shape + "(), }", ""),
            "w.npz: 'a.npy': 0 bytes of values; expected [] values of 8 bytes each");
  // 2^61 values of 8 bytes are 2^64 bytes, and so none; the others overflow before a zero does.
  EXPECT_THAT(ErrorOfHeader(with_shape + "(2305843009213693952,), }", ""),
              HasSubstr("0 bytes of values; expected [2305843009213693952] values"));
  EXPECT_THAT(ErrorOfHeader(with_shape + "(4294967296, 4294967296), }", ""),
              HasSubstr("0 bytes of values; expected [4294967296, 4294967296] values"));
  EXPECT_EQ(ErrorOfHeader(with_shape + "(4294967296, 4294967296, 0), }", ""), "");
}

TEST(Npz, MoreThanTheLimitIsRefused) {
  const std::string npy = test::NpyOf({100}, From(0, 100));
  const std::string file = test::ZipOf({{"a.npy", npy}, {"b.npy", npy, true}});
  const MemoryBytes source("w.npz", file);
  EXPECT_TRUE(ReadNpz(source, 2 * npy.size()).ok());
  const std::string size = std::to_string(npy.size());
  EXPECT_EQ(ReadNpz(source, 2 * npy.size() - 1).message(),
            "w.npz: 'b.npy': " + size + " B unpacked; expected at most " +
                std::to_string(npy.size() - 1) + " B more than the " + size +
                " B of the members before it");
  // Bytes become eight times as many.
  const std::string bytes = test::NpyOf(
      "{'descr': '|u1', 'fortran_order': False, 'shape': (100,), }", std::string(100, '\1'));
  const std::string small = test::ZipOf({{"a.npy", bytes}});
  EXPECT_TRUE(ReadNpz(MemoryBytes("w.npz", small), 800).ok());
  EXPECT_EQ(
      ReadNpz(MemoryBytes("w.npz", small), 799).message(),
      "w.npz: 'a.npy': 100 values; expected at most 99, which is what the limit leaves for it");
}

TEST(Npz, AFileThatBecomesShorterWhileItIsReadIsRefused) {
  const std::string path = ::testing::TempDir() + "/npz_test.npz";
  std::ofstream(path, std::ios::binary) << test::ZipOf({{"a.npy", test::NpyOf({1}, {1})}});
  const auto file = OpenByteSource(path);
  ASSERT_TRUE(file.ok()) << file.message();
  const std::string size = std::to_string((*file)->size());
  std::filesystem::resize_file(path, 10);
  EXPECT_EQ(ReadNpz(**file).message(),
            path + ": 10 bytes; expected the " + size + " that it had when it was opened");
  std::remove(path.c_str());
}

TEST(Npz, AMissingFileIsNamed) {
  EXPECT_EQ(OpenByteSource("/nowhere/w.npz").message(),
            "/nowhere/w.npz: cannot be opened: No such file or directory");
  EXPECT_EQ(OpenByteSource("/dev/null").message(), "/dev/null: no regular file; expected a file");
}

}  // namespace
}  // namespace ucudnn::multigrid
