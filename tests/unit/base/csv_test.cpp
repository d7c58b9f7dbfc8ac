#include "base/csv.h"

#include <gtest/gtest.h>

#include <random>

namespace ucudnn {
namespace {

const CsvColumns kColumns{{"name", "n"}, {"note"}};

Result<CsvTable> Parse(std::string_view text) { return ParseCsv(text, "f.csv", kColumns); }

std::string Field(const CsvTable& table, size_t row, const std::string& column) {
  const std::string* field = table.Field(row, column);
  return field == nullptr ? "(none)" : *field;
}

TEST(Csv, ColumnOrderIsFree) {
  const auto table = Parse("n,note,name\n4,x,a\n");
  ASSERT_TRUE(table.ok()) << table.message();
  EXPECT_EQ(table->rows(), 1u);
  EXPECT_EQ(Field(*table, 0, "name"), "a");
  EXPECT_EQ(Field(*table, 0, "n"), "4");
}

TEST(Csv, ByteOrderMarkCrLfBlankAndCommentLinesAreSkipped) {
  const auto table = Parse("\xef\xbb\xbf# made by hand\r\n\r\nname,n\r\n  \r\n# a,1\r\nb,2\r\n");
  ASSERT_TRUE(table.ok()) << table.message();
  ASSERT_EQ(table->rows(), 1u);
  EXPECT_EQ(Field(*table, 0, "name"), "b");
  EXPECT_EQ(Field(*table, 0, "n"), "2");
}

TEST(Csv, LastLineNeedsNoNewline) {
  const auto table = Parse("name,n\na,1");
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(Field(*table, 0, "n"), "1");
}

TEST(Csv, AnEmptyLastFieldAtTheEndOfTheTextIsAField) {
  const auto table = Parse("name,n\na,");
  ASSERT_TRUE(table.ok()) << table.message();
  EXPECT_EQ(table->Field(0, "n"), nullptr);
}

TEST(Csv, QuotedFieldsKeepCommasQuotesNewlinesAndSpaces) {
  const auto table = Parse("name,n\n \" a,\"\"b\"\"\r\n#c \" , 1\n");
  ASSERT_TRUE(table.ok()) << table.message();
  EXPECT_EQ(Field(*table, 0, "name"), " a,\"b\"\r\n#c ");
  EXPECT_EQ(Field(*table, 0, "n"), "1");
}

TEST(Csv, EmptyAndAbsentFieldsAreNull) {
  const auto table = Parse("name,n\n,1\n");
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(table->Field(0, "name"), nullptr);
  EXPECT_EQ(table->Field(0, "note"), nullptr);
}

TEST(Csv, ErrorsNameFileAndLine) {
  const auto table = Parse("name,n\n\"a\nb\",1\nc,2\n");
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(table->Error(0, "wrong").message(), "f.csv:2: wrong");
  EXPECT_EQ(table->Error(1, "wrong").message(), "f.csv:4: wrong");
}

struct Bad {
  const char* what;
  std::string text;
  const char* message;
};

class CsvRefusal : public ::testing::TestWithParam<Bad> {};

TEST_P(CsvRefusal, SaysWhereAndWhatWasExpected) {
  const auto table = Parse(GetParam().text);
  ASSERT_FALSE(table.ok());
  EXPECT_EQ(table.message(), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Csv, CsvRefusal,
    ::testing::Values(
        Bad{"Empty", "", "f.csv:1: no header; expected the columns name,n"},
        Bad{"OnlyComments", "# a\n\n", "f.csv:3: no header; expected the columns name,n"},
        Bad{"UnknownColumn", "name,n,noet\n",
            "f.csv:1: unknown column 'noet'; expected one of name,n,note; nearest: note"},
        Bad{"FarColumn", "name,n,velocity\n",
            "f.csv:1: unknown column 'velocity'; expected columns are name,n,note"},
        Bad{"Duplicate", "name,n,n\n", "f.csv:1: column 'n' occurs twice; expected once"},
        Bad{"Missing", "note,name\n",
            "f.csv:1: the header lacks column 'n'; expected at least name,n"},
        Bad{"TooFewFields", "name,n\n\na\n", "f.csv:3: 1 fields; expected 2, as in the header"},
        Bad{"TooManyFields", "name,n\na,1,2\n", "f.csv:2: 3 fields; expected 2, as in the header"},
        Bad{"OpenQuote", "name,n\na,\"1\nb,2\n",
            "f.csv:2: field 2: a quoted field that never ends; expected a closing quote"},
        Bad{"TextAfterQuote", "name,n\n\"a\"b,1\n",
            "f.csv:2: field 1: text after a closing quote; expected a comma or the line's end"},
        Bad{"QuoteInside", "name,n\na\"b,1\n",
            "f.csv:2: field 1: a quote inside 'a\"b'; expected the whole field in quotes and each "
            "quote in it doubled"},
        Bad{"Nul", std::string("name,n\na\0b,1\n", 13),
            "f.csv:2: field 1: a NUL byte; expected CSV text, not a binary file"},
        Bad{"HugeField", "name,n\n" + std::string((1 << 20) + 1, 'a') + ",1\n",
            "f.csv:2: field 1: longer than 1 MiB; expected CSV text"},
        Bad{"HugeQuotedField", "name,n\n\"" + std::string((1 << 20) + 1, 'a') + "\",1\n",
            "f.csv:2: field 1: longer than 1 MiB; expected CSV text"}),
    [](const auto& info) { return info.param.what; });

TEST(Csv, AMillionDoubledQuotesAreReadInLinearTime) {
  const auto table = Parse("name,n\n\"" + std::string(2'000'000, '"') + "\",1\n");
  ASSERT_TRUE(table.ok()) << table.message();
  EXPECT_EQ(Field(*table, 0, "name").size(), 1'000'000u);
}

TEST(Csv, AnyFieldsSurviveWritingAndReading) {
  const unsigned seed = 20180212;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::string alphabet = "ab,\"\n\r #\t\xc3\xa9;'";
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::string> fields(3);
    for (std::string& field : fields) {
      for (auto length = random() % 8; length > 0; --length) {
        field += alphabet[random() % alphabet.size()];
      }
    }
    const std::string line = CsvLine(fields);
    const auto table = Parse("name,n,note\n" + line);
    ASSERT_TRUE(table.ok()) << table.message() << " for " << line;
    ASSERT_EQ(table->rows(), 1u) << line;
    const char* const names[] = {"name", "n", "note"};
    for (size_t column = 0; column < 3; ++column) {
      ASSERT_EQ(Field(*table, 0, names[column]), fields[column].empty() ? "(none)" : fields[column])
          << line;
    }
  }
}

TEST(Csv, AnyBytesGiveATableOrAnErrorWithTheFileName) {
  const unsigned seed = 7;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::string alphabet("n,n,n\n\"\"\r# \0\xff", 13);
  constexpr int kTexts = 20000;
  int tables = 0;
  for (int i = 0; i < kTexts; ++i) {
    std::string text = random() % 2 == 0 ? "name,n\n" : "";
    for (auto length = random() % 40; length > 0; --length) {
      text += alphabet[random() % alphabet.size()];
    }
    const auto table = Parse(text);
    EXPECT_TRUE(table.ok() || table.message().substr(0, 6) == "f.csv:") << table.message();
    tables += table.ok();
  }
  EXPECT_TRUE(0 < tables && tables < kTexts) << tables;
}

TEST(Csv, ALoneEmptyFieldIsNotABlankLine) { EXPECT_EQ(CsvLine({""}), "\"\"\n"); }

}  // namespace
}  // namespace ucudnn
