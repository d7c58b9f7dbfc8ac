#include "db/family.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.h"
#include "convolution/columns.h"

namespace ucudnn::db {
namespace {

bool IsText(const std::string& column) {
  static constexpr const char* kTextColumns[] = {"op",      "dtype", "layout",    "math",
                                                 "compute", "mode",  "x_strides", "y_strides"};
  return std::find(std::begin(kTextColumns), std::end(kTextColumns), column) !=
         std::end(kTextColumns);
}

}  // namespace

const std::vector<std::string>& FamilyColumns() {
  static const auto* const columns = [] {
    auto* all = new std::vector<std::string>{"op"};
    all->insert(all->end(), LayerColumns().begin(), LayerColumns().end());
    all->insert(all->end(), NumericColumns().begin(), NumericColumns().end());
    all->insert(all->end(), PostPadColumns().begin(), PostPadColumns().end());
    return all;
  }();
  return *columns;
}

const char* FamilyColumnType(const std::string& column) {
  return IsText(column) ? "TEXT" : "INTEGER";
}

std::vector<std::string> FamilyTexts(const ConvolutionProblem& problem) {
  std::vector<std::string> texts;
  texts.reserve(FamilyColumns().size());
  for (auto& [column, text] : ToColumns(problem)) texts.push_back(std::move(text));
  // The first value of ToColumns() is n; the first column of the table is op.
  texts[0] = OperationName(problem.operation);
  return texts;
}

int BindFamily(Statement& statement, const ConvolutionProblem& problem) {
  static const auto* const are_numbers = [] {
    auto* all = new std::vector<bool>;
    for (const std::string& column : FamilyColumns()) all->push_back(!IsText(column));
    return all;
  }();
  static const auto align = static_cast<size_t>(
      std::find(FamilyColumns().begin(), FamilyColumns().end(), "align") - FamilyColumns().begin());
  const std::vector<std::string> texts = FamilyTexts(problem);
  const size_t first_pad_behind = texts.size() - kMaxSpatial;
  for (size_t i = 0; i < texts.size(); ++i) {
    const int parameter = static_cast<int>(i) + 1;
    if (!(*are_numbers)[i]) {
      statement.Bind(parameter, std::string_view(texts[i]));
      continue;
    }
    int64_t number = i == align ? 1 : 0;
    ReadNumber(texts[i], number);
    if (i >= first_pad_behind) {
      const size_t axis = i - first_pad_behind;
      number = int64_t{problem.pad[axis]} + problem.extra_pad[axis];
    }
    statement.Bind(parameter, number);
  }
  return static_cast<int>(texts.size());
}

const std::string& FindKernelSql() {
  static const auto* const sql =
      new std::string("SELECT id FROM families WHERE " + Join(FamilyColumns(), "=? AND ") + "=?");
  return *sql;
}

Result<int64_t> FindKernel(Statement& find, const ConvolutionProblem& family) {
  BindFamily(find, family);
  UCUDNN_ASSIGN_OR_RETURN(const bool row, find.Step());
  const int64_t id = row ? find.Int(0) : 0;
  // Steps to the end, so that `find` can be bound again.
  if (row) UCUDNN_RETURN_IF_ERROR(find.Run());
  return id;
}

Result<ConvolutionProblem> ReadFamily(const Statement& statement, int first) {
  std::map<std::string, std::string> texts;
  for (const std::string& column : FamilyColumns()) texts[column] = statement.Text(first++);
  if (texts["d"] == "0") {
    for (const char* column : {"d", "t", "pad_d", "stride_d", "dilation_d", "pad_d_post"}) {
      texts[column].clear();
    }
  }
  return FromColumns([&](const std::string& column) -> const std::string* {
    const auto found = texts.find(column);
    return found == texts.end() || found->second.empty() ? nullptr : &found->second;
  });
}

}  // namespace ucudnn::db
