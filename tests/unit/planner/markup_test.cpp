// Tests that any text, escaped for markup, is shown as it is.
#include "planner/report/markup.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "planner/report/chart.h"
#include "planner/report/page.h"

namespace ucudnn::planner {
namespace {

std::string Text(const Element& element) {
  std::string markup;
  element.AppendTo(markup);
  return markup;
}

// Returns what a browser shows for markup without elements.
std::string Unescaped(std::string text) {
  const std::pair<const char*, const char*> entities[] = {
      {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}};
  for (const auto& [entity, character] : entities) {
    for (size_t at = text.find(entity); at != std::string::npos; at = text.find(entity, at + 1)) {
      text.replace(at, std::string(entity).size(), character);
    }
  }
  return text;
}

TEST(Markup, ElementsNestAndVoidOnesHaveNoEnd) {
  Element list("ul");
  list.Set("class", "a b").Add(Element("li", "one").Add(Element("br")).Text("two"));
  EXPECT_EQ(Text(list), "<ul class=\"a b\"><li>one<br>two</li></ul>");
}

TEST(Markup, TextsAndValuesAreEscaped) {
  const Element link = Element("p", "</p><script>alert('x') && 1</script>").Set("title", "\"><b>");
  EXPECT_EQ(
      Text(link),
      "<p title=\"&quot;&gt;&lt;b&gt;\">&lt;/p&gt;&lt;script&gt;alert(&#39;x&#39;) &amp;&amp; "
      "1&lt;/script&gt;</p>");
}

TEST(Markup, WhatIsNoCharacterIsReplaced) {
  EXPECT_EQ(Escaped(std::string("a\0b\x01\x7F\t\n", 7)),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD\xEF\xBF\xBD\t\n");
  EXPECT_EQ(Escaped("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"),
            "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
  for (const char* wrong :
       {"\xC0\xAF", "\xE0\x80\xBC", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xC2\x85"}) {
    EXPECT_EQ(Escaped(wrong).find(wrong), std::string::npos);
    EXPECT_NE(Escaped(wrong).find("\xEF\xBF\xBD"), std::string::npos);
  }
  EXPECT_EQ(Escaped("\xC3"), "\xEF\xBF\xBD");
  EXPECT_EQ(Escaped("\xC3<"), "\xEF\xBF\xBD&lt;");
}

// The reader of nlohmann/json decides independently whether a text is valid UTF-8.
TEST(Markup, RandomBytesBecomeTextThatReadsBack) {
  std::mt19937 random(7);
  const std::string alphabet = "a<>&\"'\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xFF\xED\xA0";
  for (int trial = 0; trial < 20'000; ++trial) {
    std::string text(random() % 9, 0);
    for (char& byte : text) byte = alphabet[random() % alphabet.size()];
    const std::string escaped = Escaped(text);
    EXPECT_EQ(escaped.find_first_of("<>\"'"), std::string::npos);
    EXPECT_NO_THROW(std::ignore = nlohmann::json(escaped).dump()) << trial;
    bool valid = true;
    try {
      std::ignore = nlohmann::json(text).dump();
    } catch (const nlohmann::json::exception&) {
      valid = false;
    }
    EXPECT_EQ(Unescaped(escaped) == text, valid) << trial;
  }
}

TEST(Markup, CoordinatesAreShortAndFinite) {
  EXPECT_EQ(Coordinate(1), "1");
  EXPECT_EQ(Coordinate(-0.001), "0");
  EXPECT_EQ(Coordinate(2.505), "2.5");
  EXPECT_EQ(Coordinate(-12.3456), "-12.35");
  EXPECT_EQ(Coordinate(1e300), "1000000000");
  EXPECT_EQ(Coordinate(std::numeric_limits<double>::infinity()), "0");
  EXPECT_EQ(Coordinate(std::numeric_limits<double>::quiet_NaN()), "0");
}

TEST(Page, HasOneHeadAndFetchesNothing) {
  std::vector<Element> content;
  content.push_back(Element("h1", "A <title>"));
  const std::string page = FormatPage("A <title>", std::move(content));
  EXPECT_EQ(page.rfind("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">", 0), 0u);
  EXPECT_NE(page.find("<title>A &lt;title&gt;</title>"), std::string::npos);
  EXPECT_NE(page.find("default-src &#39;none&#39;"), std::string::npos);
  for (const char* outside : {"http://", "https://", "src=", "href=", "@import", "url("}) {
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  }
}

TEST(Page, TablesSayWhatTheyAreSortedBy) {
  Table table("t", "caption", {{"name"}, {"time", true}}, true);
  table.AddRow({"a", {"0.5 ms", 0.5}});
  const std::string text = Text(table.Take());
  EXPECT_NE(
      text.find("<th scope=\"col\" class=\"number\"><button type=\"button\">time</button></th>"),
      std::string::npos);
  EXPECT_NE(
      text.find("<th scope=\"row\">a</th><td class=\"number\" data-value=\"0.5\">0.5 ms</td>"),
      std::string::npos);
}

// Returns the number in the attribute `name` that occurs `index` times before (0: the first).
double Attribute(const std::string& markup, const std::string& name, int index) {
  size_t at = 0;
  for (int i = 0; i <= index; ++i) at = markup.find(" " + name + "=\"", at) + 1;
  return std::stod(markup.substr(at + name.size() + 2));
}

TEST(Charts, BarsAreAsLongAsTheirNumbers) {
  BarChart chart;
  chart.id = "c";
  chart.bars = {{"one", {{10, 0, "", "ten"}, {30, 1, "", "thirty"}}, "40"},
                {"two", {{20, 0, "", ""}}, ""}};
  const std::string text = Text(Draw(chart));
  const std::string bars = text.substr(text.find("<title>ten"));
  EXPECT_NEAR(Attribute(bars, "width", 1) / Attribute(bars, "width", 0), 3, 0.01);
  EXPECT_NEAR(Attribute(bars, "width", 2) / Attribute(bars, "width", 0), 2, 0.01);
  EXPECT_NEAR(Attribute(bars, "x", 0) + Attribute(bars, "width", 0), Attribute(bars, "x", 1), 0.02);
}

TEST(Charts, NothingAndTheLargestNumbersCanBeDrawn) {
  for (const double length : {0.0, 1e-12, 1.0, 9.2e18, 1e300}) {
    for (const Unit unit : {Unit::kMilliseconds, Unit::kBytes}) {
      BarChart chart;
      chart.unit = unit;
      chart.bars = {{"a", {{length, 12, "label", "tip"}}, "end"}};
      chart.limit = length;
      const std::string text = Text(Draw(chart));
      EXPECT_LT(text.size(), 10'000u) << length;
      EXPECT_EQ(text.find("nan"), std::string::npos);
      EXPECT_EQ(text.find("inf"), std::string::npos);
    }
    const std::string text = Text(Draw(PointChart{"p", "t", {{length, length, true, ""}}, {}, {}}));
    EXPECT_LT(text.size(), 10'000u) << length;
  }
  EXPECT_NE(Text(Draw(PointChart{})), "");
}

}  // namespace
}  // namespace ucudnn::planner
