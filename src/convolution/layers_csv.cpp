#include "convolution/layers_csv.h"

#include <algorithm>

#include "base/csv.h"
#include "base/text_file.h"
#include "convolution/columns.h"

namespace ucudnn {
namespace {

CsvColumns LayerFileColumns() {
  CsvColumns columns;
  columns.required = {"name", "n"};
  for (const std::string& column : LayerColumns()) {
    const std::vector<std::string>& required = RequiredLayerColumns();
    const bool needed = std::find(required.begin(), required.end(), column) != required.end();
    (needed ? columns.required : columns.optional).push_back(column);
  }
  columns.optional.insert(columns.optional.end(), PostPadColumns().begin(), PostPadColumns().end());
  return columns;
}

}  // namespace

Result<std::vector<Layer>> ParseLayersCsv(std::string_view text, const std::string& file,
                                          const std::vector<Operation>& operations) {
  UCUDNN_ASSIGN_OR_RETURN(const CsvTable table, ParseCsv(text, file, LayerFileColumns()));
  std::vector<Layer> layers;
  for (size_t row = 0; row < table.rows(); ++row) {
    const FieldLookup field = [&](const std::string& column) { return table.Field(row, column); };
    for (const char* column : {"name", "n"}) {
      if (field(column) == nullptr) {
        return table.Error(row, std::string("column '") + column + "': empty; expected " +
                                    (column == std::string("n") ? "the mini-batch" : "a name"));
      }
    }
    const Result<ConvolutionProblem> problem = FromColumns(field);
    if (!problem.ok()) return table.Error(row, problem.message());
    for (const Operation operation : operations) {
      Layer& layer = layers.emplace_back(Layer{*field("name"), *problem});
      layer.problem.operation = operation;
    }
  }
  if (table.rows() == 0) {
    return Status::Error(file + ": a header and no layer; expected at least one row");
  }
  return layers;
}

Result<std::vector<Layer>> ReadLayersCsv(const std::string& path,
                                         const std::vector<Operation>& operations) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  return ParseLayersCsv(text, path, operations);
}

}  // namespace ucudnn
