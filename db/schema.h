// The tables of a measurement store and how a file is recognised as one. FORMAT.md describes both.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "convolution/problem.h"
#include "db/connection.h"

namespace ucudnn::db {

inline constexpr int64_t kApplicationId = 0x75634477;  // "ucDw"
inline constexpr int64_t kSchemaVersion = 1;

struct Identity {
  enum class Kind { kOurs, kEmpty, kUnusable };
  Kind kind = Kind::kEmpty;
  std::string reason;  // why it is unusable: damaged, foreign or newer
};

// What the file behind `connection` is; reads the file and writes nothing. An error is a passing
// fault (locked, no permission), not a verdict on the file. `thorough` reads every page.
Result<Identity> Identify(Connection& connection, bool thorough);

// Creates the tables in an empty file, unless another process just did.
Status CreateSchema(Connection& connection);

// The columns that tell kernel families apart, in table order.
const std::vector<std::string>& FamilyColumns();

// Their values for `problem`, ready to be bound to the table's types.
struct FamilyValue {
  bool is_number = false;
  int64_t number = 0;
  std::string text;
};
std::vector<FamilyValue> FamilyValues(const ConvolutionProblem& problem);

// The problem (n = 0) in the columns of `statement` from `first` on, in the order of
// FamilyColumns().
Result<ConvolutionProblem> ReadFamily(const Statement& statement, int first);

}  // namespace ucudnn::db
