// Kernel families as rows of a table. A kernel family is a convolution without its mini-batch; each
// property that distinguishes families has its own column.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "convolution/problem.h"
#include "db/connection.h"

namespace ucudnn::db {

// Returns the columns that distinguish kernel families, in table order. The last columns are
// PostPadColumns(). Every row has numbers in PostPadColumns(), even if the pads before and after
// each axis are equal.
const std::vector<std::string>& FamilyColumns();

// Returns the SQL type with which a family column is declared.
const char* FamilyColumnType(const std::string& column);

// Returns the values of a problem's family as text, in table order. An empty text in a numeric
// column means a default: 1 in the column `align`, the pad before the axis in PostPadColumns(), and
// 0 in all others.
std::vector<std::string> FamilyTexts(const ConvolutionProblem& problem);

// Binds the family of `problem` to parameters 1 to N and returns N.
int BindFamily(Statement& statement, const ConvolutionProblem& problem);

// Returns the SQL that finds the id of a family; BindFamily() binds its parameters.
const std::string& FindKernelSql();
Result<int64_t> FindKernel(Statement& find, const ConvolutionProblem& family);

// Reads a problem with n = 0 from FamilyColumns().size() adjacent columns of `statement`, which
// begin at column `first`.
Result<ConvolutionProblem> ReadFamily(const Statement& statement, int first);

}  // namespace ucudnn::db
