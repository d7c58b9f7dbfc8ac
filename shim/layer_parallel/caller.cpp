#include "layer_parallel/caller.h"

namespace ucudnn::layer_parallel {
namespace {

std::string InWords(const Caller::Subject& subject) {
  if (subject.layers == 0) {
    return subject.state < 0 ? "" : " for state " + std::to_string(subject.state);
  }
  std::string words = " for layer" + std::string(subject.layers > 1 ? "s " : " ") +
                      std::to_string(subject.first_layer);
  if (subject.layers > 1) {
    words += " to " + std::to_string(subject.first_layer + subject.layers - 1);
  }
  return words + " of level " + std::to_string(subject.level);
}

}  // namespace

std::optional<Answer> Caller::Failed() const {
  for (const std::optional<Failure>& failure : failures_) {
    if (!failure) continue;
    const std::string what =
        failure->words ? failure->words : "returned " + std::to_string(failure->code);
    return Answer{
        UCUDNN_LAYER_PARALLEL_CALLBACK_FAILED,
        std::string("the ") + failure->callback + " callback " + what + InWords(failure->subject),
        failure->code};
  }
  return std::nullopt;
}

}  // namespace ucudnn::layer_parallel
