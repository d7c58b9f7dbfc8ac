// Tests that a larger limit of workspace never gives a slower plan. Promises under rising limits
// are compared with each other, and with an enumeration of all divisions that may be promised.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "measured.h"
#include "planning/compositions.h"
#include "planning/owned_promise.h"
#include "planning/promise.h"
#include "planning/workspace_reuse.h"
#include "tests/support/seeded_random.h"

namespace ucudnn::planning {
namespace {

constexpr size_t kMostRoom = 9 * kMiB;

std::string EngineText(int engine) { return "legacy:" + std::to_string(engine); }

// Holds a kernel's candidates and a request for them. The test sets the request's limit.
struct Case {
  std::vector<Candidate> measured;
  PromiseRequest request;
};

// Returns a random case. All times are whole milliseconds, so that sums are exact. In half of the
// cases the times are nearly linear in the size, so that gains are about as large as the
// hysteresis.
Case RandomCase(std::mt19937& random, int most_images, int engines) {
  Case drawn;
  drawn.request.n = Draw(random, 1, most_images);
  drawn.request.step = 1 << Draw(random, 0, 2);
  drawn.request.deterministic = Draw(random, 0, 3) == 0;
  if (Draw(random, 0, 2) == 0) {
    drawn.request.chosen = static_cast<NumericClass>(Draw(random, 0, 2));
  }
  const bool linear = Draw(random, 0, 1) == 1;
  const bool foreign = Draw(random, 0, 1) == 1;
  std::vector<MicroConfiguration> rows = RandomMeasured(random, drawn.request.n, engines);
  for (int engine = 0; engine < engines; ++engine) {
    const auto numeric = static_cast<NumericClass>(Draw(random, 0, 2));
    const bool native = !foreign || Draw(random, 0, 1) == 1;
    for (MicroConfiguration& micro : rows) {
      if (!(micro.engine == EngineText(engine))) continue;
      if (linear) micro.time_ms = 100 * micro.micro_batch + Draw(random, 0, 20);
      drawn.measured.push_back({micro, numeric, native});
    }
  }
  std::shuffle(drawn.measured.begin(), drawn.measured.end(), random);
  return drawn;
}

double TimeOf(const std::optional<Promise>& promise) {
  return promise ? promise->configuration.TimeMs() : kNoTime;
}

double TimeOf(const std::optional<Configuration>& configuration) {
  return configuration ? configuration->TimeMs() : kNoTime;
}

// Calls `find` under rising limits, and expects that no division is slower than a division under a
// lower limit. Adds to `helped` the number of limits under which the division is faster.
template <typename Find>
void ExpectNoSlowerWithMoreRoom(const Case& drawn, double hysteresis, Find find, int& helped) {
  double fastest_ms = kNoTime;
  PromiseRequest request = drawn.request;
  for (request.limit_bytes = 0; request.limit_bytes <= kMostRoom; request.limit_bytes += kMiB) {
    const double time_ms = TimeOf(find(drawn.measured, request));
    EXPECT_LE((1 - hysteresis) * time_ms, fastest_ms) << "within " << request.limit_bytes;
    helped += time_ms < fastest_ms && fastest_ms < kNoTime;
    fastest_ms = std::min(fastest_ms, time_ms);
  }
}

template <typename Find>
void ExpectNoSlowerWithMoreRoom(double hysteresis, Find find) {
  test::SeededRandom random;
  int helped = 0;
  for (int i = 0; i < 6000 && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    ExpectNoSlowerWithMoreRoom(RandomCase(random, 24, 5), hysteresis, find, helped);
  }
  EXPECT_GT(helped, 500);
}

TEST(MoreRoom, NeverGivesASlowerPromise) { ExpectNoSlowerWithMoreRoom(kHysteresis, MakePromise); }

TEST(MoreRoom, NeverGivesASlowerDivision) { ExpectNoSlowerWithMoreRoom(0, FastestDivision); }

TEST(MoreRoom, NeverGivesSlowerPiecesOfOneEngine) {
  ExpectNoSlowerWithMoreRoom(
      0, [](const std::vector<Candidate>& measured, const PromiseRequest& request) {
        return PiecesOf(EngineText(0), measured, request);
      });
}

TEST(MoreRoom, NeverGivesASlowerOwnedPromise) {
  ExpectNoSlowerWithMoreRoom(
      0, [](const std::vector<Candidate>& measured, const PromiseRequest& request) {
        return MakeOwnedPromise(measured, request);
      });
}

bool IsExactAs(NumericClass engine, NumericClass asked) {
  return engine == NumericClass::kDirect || engine == asked;
}

// Tries every division of a mini-batch into allowed pieces, one piece after the other.
class Enumeration {
 public:
  explicit Enumeration(const Case& drawn)
      : allowed_(AllowedCandidates(drawn.measured, drawn.request)), request_(drawn.request) {
    for (const Candidate* candidate : allowed_) {
      if (candidate->micro.micro_batch == request_.n && candidate->native) {
        undivided_.push_back(candidate);
      }
    }
    std::vector<const Candidate*> pieces;
    Extend(pieces, 0, 0);
  }

  double fastest_ms() const { return fastest_ms_; }
  double fastest_promisable_ms() const { return fastest_promisable_ms_; }
  double fastest_divided_ms() const { return fastest_divided_ms_; }

 private:
  void Extend(std::vector<const Candidate*>& pieces, int begin, double time_ms) {
    if (begin == request_.n) return Judge(pieces, time_ms);
    if (begin % request_.step != 0) return;
    for (const Candidate* candidate : allowed_) {
      const int size = candidate->micro.micro_batch;
      if (size < 1 || size > request_.n - begin) continue;
      pieces.push_back(candidate);
      Extend(pieces, begin + size, time_ms + candidate->micro.time_ms);
      pieces.pop_back();
    }
  }

  void Judge(const std::vector<const Candidate*>& pieces, double time_ms) {
    const Candidate& largest = **std::max_element(
        pieces.begin(), pieces.end(), [](const Candidate* a, const Candidate* b) {
          return a->micro.micro_batch < b->micro.micro_batch;
        });
    for (const Candidate* piece : pieces) {
      if (!IsExactAs(piece->numeric, largest.numeric)) return;
      if (largest.micro.deterministic && !piece->micro.deterministic) return;
    }
    fastest_ms_ = std::min(fastest_ms_, time_ms);
    const bool promisable =
        std::any_of(undivided_.begin(), undivided_.end(), [&](const Candidate* undivided) {
          if (!largest.native) return undivided->numeric == largest.numeric;
          return IsExactAs(undivided->numeric, largest.numeric);
        });
    if (!promisable) return;
    fastest_promisable_ms_ = std::min(fastest_promisable_ms_, time_ms);
    if (pieces.size() > 1) fastest_divided_ms_ = std::min(fastest_divided_ms_, time_ms);
  }

  const std::vector<const Candidate*> allowed_;
  const PromiseRequest request_;
  std::vector<const Candidate*> undivided_;
  double fastest_ms_ = kNoTime;
  double fastest_promisable_ms_ = kNoTime;
  double fastest_divided_ms_ = kNoTime;
};

// Returns the time of the fastest division into allowed pieces, whatever the numeric classes of its
// pieces are.
double MixedMs(const Case& drawn) {
  std::vector<MicroConfiguration> rows;
  for (const Candidate* candidate : AllowedCandidates(drawn.measured, drawn.request)) {
    rows.push_back(candidate->micro);
  }
  const PromiseRequest& request = drawn.request;
  return TimeOf(OptimizeWorkspaceReuse(rows, request.n, request.step, request.limit_bytes));
}

TEST(MoreRoom, PromisesAreTheFastestOfAllDivisionsThatMayBePromised) {
  test::SeededRandom random;
  int divided = 0, mixed_is_faster = 0;
  for (int i = 0; i < 40000 && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    Case drawn = RandomCase(random, 6, 3);
    PromiseRequest& request = drawn.request;
    request.limit_bytes = static_cast<size_t>(Draw(random, 0, 9)) * kMiB;
    const Enumeration all(drawn);
    const std::optional<Configuration> division = FastestDivision(drawn.measured, request);
    EXPECT_EQ(TimeOf(division), all.fastest_ms());
    if (division) ExpectLegalDivision(*division, request.n, request.step, request.limit_bytes);
    const std::optional<Promise> promise = MakePromise(drawn.measured, request);
    const bool is_divided = promise && promise->configuration.Pieces() > 1;
    if (is_divided) {
      EXPECT_EQ(TimeOf(promise), all.fastest_divided_ms());
      ExpectLegalDivision(promise->configuration, request.n, request.step,
                          promise->workspace_bytes);
      EXPECT_LE(promise->workspace_bytes, request.limit_bytes);
      EXPECT_LE(promise->undivided.workspace_bytes, promise->workspace_bytes);
      const std::optional<Promise> again =
          MakePromiseOf(promise->configuration, drawn.measured, request);
      ASSERT_TRUE(again);
      EXPECT_EQ(again->reported, promise->reported);
    }
    EXPECT_EQ(promise.has_value(), all.fastest_promisable_ms() < kNoTime);
    EXPECT_EQ(FastestPromisableMs(drawn.measured, request).value_or(kNoTime),
              all.fastest_promisable_ms());
    EXPECT_LE((1 - kHysteresis) * TimeOf(promise), all.fastest_promisable_ms());
    divided += is_divided;
    mixed_is_faster +=
        all.fastest_divided_ms() < kNoTime && MixedMs(drawn) < all.fastest_promisable_ms();
  }
  EXPECT_GT(divided, 400);
  EXPECT_GT(mixed_is_faster, 300);
}

}  // namespace
}  // namespace ucudnn::planning
