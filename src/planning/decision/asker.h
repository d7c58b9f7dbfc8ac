// Answers Decide's questions from the facts. A question that the facts do not answer gets an empty
// answer. The first such question becomes the next step, and the decision that Decide makes from
// empty answers is dropped.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planning/decision/decide.h"

namespace ucudnn::planning {

class Asker {
 public:
  explicit Asker(const Facts& facts) : facts_(facts) {}

  const Rows& operator()(Measure question) { return Ask(facts_.measured, std::move(question)); }
  const Tilings& operator()(FindTilings question) {
    return Ask(facts_.tilings, std::move(question));
  }
  const std::vector<MicroConfiguration>& operator()(FindSubstitutes question) {
    return Ask(facts_.substitutes, std::move(question));
  }
  const Trust& operator()(Compare question) { return Ask(facts_.compared, std::move(question)); }
  const BuildOutcome& operator()(Build question) { return Ask(facts_.built, std::move(question)); }

  // Returns the first question that the facts do not answer; if there is none, the decision is
  // valid.
  const std::optional<Step>& open() const { return open_; }

  int wrong_plans() const {
    const auto& entries = facts_.compared.entries();
    return static_cast<int>(std::count_if(entries.begin(), entries.end(), [](const auto& known) {
      return known.second.kind == Trust::Kind::kWrong;
    }));
  }
  bool WasWrong(const Configuration& configuration) const {
    return WasFound(Trust::Kind::kWrong, configuration);
  }
  bool WasSlower(const Configuration& configuration) const {
    return WasFound(Trust::Kind::kSlower, configuration);
  }
  // Removes from `tilings` the grids that a comparison found slower than an undivided engine.
  // Returns the message of the last comparison that found a grid slower; empty if there was none.
  std::string DropSlower(std::vector<Tiling>& tilings) const {
    std::string why;
    for (const auto& entry : facts_.compared.entries()) {
      const Trust& trust = entry.second;
      if (trust.kind != Trust::Kind::kSlower) continue;
      const auto& grid = entry.first.configuration.grid;
      std::erase_if(tilings, [&](const Tiling& tiling) { return tiling.grid == grid; });
      why = trust.message;
    }
    return why;
  }

 private:
  bool WasFound(Trust::Kind kind, const Configuration& configuration) const {
    const auto& entries = facts_.compared.entries();
    return std::any_of(entries.begin(), entries.end(), [&](const auto& known) {
      return known.second.kind == kind && known.first.configuration == configuration;
    });
  }
  template <typename Question>
  const typename Question::Answer& Ask(const Answers<Question>& known, Question question) {
    if (const auto* const answer = known.Find(question)) return *answer;
    if (!open_) open_ = std::move(question);
    static const typename Question::Answer kUnanswered;
    return kUnanswered;
  }

  const Facts& facts_;
  std::optional<Step> open_;
};

// Decide how a call of the legacy API or a plan of the graph API runs. The result is valid only if
// `ask.open()` is none.
Decision DecideCall(const Facts& facts, Asker& ask);
Decision DecidePlan(const Facts& facts, Asker& ask);

}  // namespace ucudnn::planning
