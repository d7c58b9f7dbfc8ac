#include "base/json_value.h"

#include <gtest/gtest.h>

namespace ucudnn {
namespace {

TEST(JsonValue, ReadsEveryKind) {
  const auto value = ParseJson(R"({"a":[1,-2,2.5,"t",true,null],"b":{"c":9223372036854775807}})");
  ASSERT_TRUE(value.ok()) << value.message();
  const JsonValue* const a = value->Find("a");
  ASSERT_NE(a, nullptr);
  ASSERT_EQ(a->items.size(), 6u);
  EXPECT_EQ(a->items[0].integer, 1);
  EXPECT_EQ(a->items[1].integer, -2);
  EXPECT_EQ(a->items[1].real, -2);
  EXPECT_TRUE(a->items[2].is(JsonValue::Kind::kReal));
  EXPECT_EQ(a->items[2].real, 2.5);
  EXPECT_EQ(a->items[3].text, "t");
  EXPECT_TRUE(a->items[4].boolean);
  EXPECT_TRUE(a->items[5].is(JsonValue::Kind::kNull));
  EXPECT_EQ(value->Find("b")->Find("c")->integer, INT64_MAX);
  EXPECT_EQ(value->Find("z"), nullptr);
  EXPECT_EQ(a->Find("c"), nullptr);
}

TEST(JsonValue, WhatDoesNotFitAnIntegerIsReal) {
  const auto value = ParseJson("[9223372036854775808]");
  ASSERT_TRUE(value.ok());
  EXPECT_TRUE(value->items[0].is(JsonValue::Kind::kReal));
}

TEST(JsonValue, RefusesWhatIsNoJson) {
  for (const char* text : {"", "{", "[1,]", "{\"a\":1}x", "nul", "{\"a\":1,\"a\":2}"}) {
    EXPECT_FALSE(ParseJson(text).ok()) << text;
  }
}

TEST(JsonValue, RefusesDepth) {
  EXPECT_TRUE(ParseJson(std::string(32, '[') + std::string(32, ']')).ok());
  EXPECT_FALSE(ParseJson(std::string(33, '[') + std::string(33, ']')).ok());
  EXPECT_FALSE(ParseJson(std::string(1000000, '[')).ok());
}

}  // namespace
}  // namespace ucudnn
