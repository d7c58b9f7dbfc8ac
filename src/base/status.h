// Success, or a message with the values for which something was refused. Plain values;
// thread-compatible. A success allocates nothing.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace ucudnn {

class [[nodiscard]] Status {
 public:
  Status() = default;
  static Status Ok() { return Status(); }
  static Status Error(std::string message) {
    Status status;
    status.message_ = std::move(message);
    status.ok_ = false;
    return status;
  }

  bool ok() const { return ok_; }
  const std::string& message() const { return message_; }

 private:
  bool ok_ = true;
  std::string message_;
};

// A value, or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit by design

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  const std::string& message() const { return status_.message(); }
  T& value() { return *value_; }
  const T& value() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace ucudnn

#define UCUDNN_CONCAT_(a, b) a##b
#define UCUDNN_CONCAT(a, b) UCUDNN_CONCAT_(a, b)

// If `expression` is an error, returns its Status from the calling function.
#define UCUDNN_RETURN_IF_ERROR(expression)                                      \
  do {                                                                          \
    if (::ucudnn::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)

// Assigns the value of the Result `expression` to `variable`, which may be a declaration. If there
// is no value, returns the Status of `expression` from the calling function.
#define UCUDNN_ASSIGN_OR_RETURN(variable, expression) \
  UCUDNN_ASSIGN_OR_RETURN_(variable, expression, UCUDNN_CONCAT(result_, __LINE__))
#define UCUDNN_ASSIGN_OR_RETURN_(variable, expression, result) \
  auto result = (expression);                                  \
  if (!result.ok()) return result.status();                    \
  variable = std::move(*result)
