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

std::vector<FamilyValue> FamilyValues(const ConvolutionProblem& problem) {
  static const auto* const numbers = [] {
    auto* all = new std::vector<bool>;
    for (const std::string& column : FamilyColumns()) all->push_back(!IsText(column));
    return all;
  }();
  // The columns are in the table's order: ToColumns puts n where the table has op.
  std::vector<std::pair<std::string, std::string>> columns = ToColumns(problem);
  columns[0] = {"op", OperationName(problem.operation)};
  std::vector<FamilyValue> values(columns.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    FamilyValue& value = values[i];
    value.is_number = (*numbers)[i];
    value.text = std::move(columns[i].second);
    // Absent numbers are 0, such as the five depth columns of a 2-D kernel; no alignment demand is
    // 1.
    if (value.is_number) {
      value.number = !value.text.empty()           ? std::stoll(value.text)
                     : columns[i].first == "align" ? 1
                                                   : 0;
    }
  }
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    values[values.size() - kMaxSpatial + axis].number =
        int64_t{problem.pad[axis]} + problem.extra_pad[axis];
  }
  return values;
}

int BindFamily(Statement& statement, const ConvolutionProblem& problem) {
  int parameter = 0;
  for (const FamilyValue& value : FamilyValues(problem)) {
    ++parameter;
    if (value.is_number) {
      statement.Bind(parameter, value.number);
    } else {
      statement.Bind(parameter, std::string_view(value.text));
    }
  }
  return parameter;
}

std::string FindKernelSql() {
  return "SELECT id FROM families WHERE " + Join(FamilyColumns(), "=? AND ") + "=?";
}

Result<int64_t> FindKernel(Statement& find, const ConvolutionProblem& family) {
  BindFamily(find, family);
  UCUDNN_ASSIGN_OR_RETURN(const bool row, find.Step());
  const int64_t id = row ? find.Int(0) : 0;
  if (row) UCUDNN_RETURN_IF_ERROR(find.Run());  // ids are unique: leaves the statement ready
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
