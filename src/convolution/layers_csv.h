// Reads layer files: one convolution per row, with the layer columns of columns.h. Errors name the
// file, what was expected and, where one row is wrong, its line. Pure functions except
// ReadLayersCsv.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "convolution/layer.h"

namespace ucudnn {

// Returns the layers in file order, each once per operation (in the order of `operations`). Fails
// if the file has no layer. `file` is the file's name in errors.
Result<std::vector<Layer>> ParseLayersCsv(std::string_view text, const std::string& file,
                                          const std::vector<Operation>& operations);

Result<std::vector<Layer>> ReadLayersCsv(const std::string& path,
                                         const std::vector<Operation>& operations);

}  // namespace ucudnn
