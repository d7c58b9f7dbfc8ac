// Kernel families as rows of the table `kernels`: a convolution without its mini-batch, one column
// for each thing that tells families apart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "convolution/problem.h"
#include "db/connection.h"

namespace ucudnn::db {

// The columns that tell kernel families apart, in table order. Those of PostPadColumns() come last;
// they hold numbers, where the pads are even, too.
const std::vector<std::string>& FamilyColumns();

// The declared type of one of them.
const char* FamilyColumnType(const std::string& column);

// Their values for `problem`, ready to be bound to the table's types.
struct FamilyValue {
  bool is_number = false;
  int64_t number = 0;
  std::string text;
};
std::vector<FamilyValue> FamilyValues(const ConvolutionProblem& problem);

// Binds the family of `problem` to parameters 1 to N and gives N.
int BindFamily(Statement& statement, const ConvolutionProblem& problem);

// Finds the id of a family; it is 0 when the store has none of it.
std::string FindKernelSql();
Result<int64_t> FindKernel(Statement& find, const ConvolutionProblem& family);

// The problem (n = 0) in the columns of `statement` from `first` on, in the order of
// FamilyColumns().
Result<ConvolutionProblem> ReadFamily(const Statement& statement, int first);

}  // namespace ucudnn::db
