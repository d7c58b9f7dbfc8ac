// Kernel families as rows of the table `kernels`: a convolution without its mini-batch, with one
// column for each property that distinguishes families.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "convolution/problem.h"
#include "db/connection.h"

namespace ucudnn::db {

// Returns the columns that distinguish kernel families, in table order. Those of PostPadColumns()
// come last; they hold numbers even if the pads are even.
const std::vector<std::string>& FamilyColumns();

// Returns the declared type of a family column.
const char* FamilyColumnType(const std::string& column);

// Returns the values of a problem's family as text, in table order. An empty number stands for 0,
// and for 1 in `align`.
std::vector<std::string> FamilyTexts(const ConvolutionProblem& problem);

// Binds the family of `problem` to parameters 1 to N and returns N.
int BindFamily(Statement& statement, const ConvolutionProblem& problem);

// SQL that finds the id of a family; the id is 0 if the store does not have the family.
const std::string& FindKernelSql();
Result<int64_t> FindKernel(Statement& find, const ConvolutionProblem& family);

// Reads the problem (n = 0) from the columns of `statement` from `first` on, in the order of
// FamilyColumns().
Result<ConvolutionProblem> ReadFamily(const Statement& statement, int first);

}  // namespace ucudnn::db
