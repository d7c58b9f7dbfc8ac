#include "planning/decision/offers.h"

#include <gmock/gmock.h>

#include <string>
#include <tuple>
#include <vector>

#include "decision_lines.h"

namespace ucudnn::planning {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr auto kForward = Operation::kForward;
constexpr auto kBackwardData = Operation::kBackwardData;
constexpr auto kMath = MathType::kTensorOp;

// Kernels have 8 images; rows are written as in decision_table_test.cpp.
const World kWorld = ReadWorld("plain need=0 | |");

std::vector<Candidate> Rows(const std::string& rows) {
  return ReadWorld("plain need=0 | " + rows + " |").rows;
}

PromiseRequest WithinBytes(size_t limit_bytes, bool deterministic = false) {
  return RequestFor(kWorld.facts.problem, limit_bytes, deterministic);
}

// Returns "ENGINE@IMAGESxCOUNT else ENGINE, told as ENGINE MS/BYTES": which pieces run, which
// engine may replace them, and what the program is told.
std::string Text(const Promise& promise) {
  std::string text;
  for (const Run& run : promise.configuration.runs) {
    if (!text.empty()) text += "+";
    text += run.micro.engine.Text() + "@" + std::to_string(run.micro.micro_batch) + "x" +
            std::to_string(run.count);
  }
  const MicroConfiguration& told = promise.reported;
  return text + " else " + promise.undivided.engine.Text() + ", told as " + told.engine.Text() +
         " " + std::to_string(static_cast<int>(told.time_ms)) + "/" +
         std::to_string(told.workspace_bytes) + (told.deterministic ? "d" : "");
}

std::vector<std::string> Texts(const std::vector<Offer>& offers) {
  std::vector<std::string> texts;
  for (const Offer& offer : offers) texts.push_back(Text(offer.promise));
  return texts;
}

std::vector<Offer> Offers(const std::string& rows, const PromiseRequest& request,
                          Operation operation = kBackwardData) {
  std::vector<Offer> offers;
  AddOffers(operation, kMath, Rows(rows), request, offers);
  return offers;
}

std::vector<Offer> OffersInBudget(const std::string& rows, const PromiseRequest& request,
                                  Operation operation = kBackwardData) {
  std::vector<Offer> offers;
  AddOffersInBudget(operation, kMath, Rows(rows), request, offers);
  return offers;
}

TEST(Offers, AreAllUndividedEnginesWithinTheRequest) {
  const std::string rows = "0@8:9/0 1@8:4/8d 2@8:3/9 3@4:9/0";
  EXPECT_THAT(Texts(Offers(rows, WithinBytes(8))),
              ElementsAre("legacy:0@8x1 else legacy:0, told as legacy:0 9/0",
                          "legacy:1@8x1 else legacy:1, told as legacy:1 4/8d"));
  EXPECT_THAT(Texts(Offers(rows, WithinBytes(8, true))),
              ElementsAre("legacy:1@8x1 else legacy:1, told as legacy:1 4/8d"));
  EXPECT_THAT(Offers(rows, WithinBytes(0, true)), IsEmpty());
}

TEST(Offers, SayWhatTheyAreOf) {
  const std::vector<Offer> offers = Offers("0@8:9/0 1@8:4/8", WithinBytes(8));
  ASSERT_EQ(offers.size(), 2u);
  for (const Offer& offer : offers) {
    EXPECT_EQ(offer.math, kMath);
    EXPECT_EQ(offer.promise.limit_bytes, 8u);
    EXPECT_EQ(offer.promise.baselines.own_api.engine, "legacy:1");
    EXPECT_EQ(offer.promise.baselines.any_api.engine, "legacy:1");
    EXPECT_EQ(offer.promise.workspace_bytes, offer.promise.reported.workspace_bytes);
    EXPECT_FALSE(offer.promise.provisional);
  }
}

TEST(Offers, EndWithTheDivisionThatBeatsTheUndividedEngines) {
  EXPECT_THAT(Texts(Offers("0@8:9/0 1@4:3/4", WithinBytes(8))),
              ElementsAre("legacy:0@8x1 else legacy:0, told as legacy:0 9/0",
                          "legacy:1@4x2 else legacy:0, told as legacy:1 6/4"));
  EXPECT_EQ(Offers("0@8:9/0 1@4:4.4/4", WithinBytes(8)).size(), 1u) << "gains less than 3 %";
}

TEST(Offers, HaveADeterministicDivisionForThoseWhoPickByDeterminism) {
  EXPECT_THAT(Texts(Offers("0@8:20/0d 1@4:3/4 2@4:4/4d", WithinBytes(8))),
              ElementsAre("legacy:0@8x1 else legacy:0, told as legacy:0 20/0d",
                          "legacy:1@4x2 else legacy:0, told as legacy:1 6/4",
                          "legacy:2@4x2 else legacy:0, told as legacy:2 8/4d"));
}

TEST(Offers, NameEnginesOfTheGraphApiAsWhatTakesTheirPlace) {
  EXPECT_THAT(Texts(Offers("0@8:9/0 g5@8:2/4", WithinBytes(8, false))),
              ::testing::Contains("graph:5@8x1 else legacy:0, told as legacy:0 2/4"));
}

// Identity activations occur only in forward calls, and only algorithm 1 can run them.
TEST(Offers, OfTheAlgorithmThatServesIdentitiesCanBeKeptAlone) {
  const std::string rows = "0@8:20/0 1@5:3/4 0@3:3/0";
  const std::vector<std::string> whole = {"legacy:0@8x1 else legacy:0, told as legacy:0 20/0"};
  EXPECT_EQ(Texts(Offers(rows, WithinBytes(8), kForward)), whole);
  EXPECT_EQ(Offers(rows, WithinBytes(8), kBackwardData).size(), 2u);
  const std::vector<Offer> offers = Offers(rows + " 1@4:9/6", WithinBytes(8), kForward);
  ASSERT_EQ(offers.size(), 2u);
  const Promise& promise = offers[1].promise;
  EXPECT_EQ(Text(promise), "legacy:1@5x1+legacy:0@3x1 else legacy:0, told as legacy:1 6/6");
  EXPECT_EQ(promise.workspace_bytes, 6u);
  EXPECT_EQ(promise.alone, (Configuration{{{{"legacy:1", 4, 9, 6, false}, 2}}}));
}

TEST(TileOffers, AreOfTheMathTypeOfTheRows) {
  const World world = ReadWorld("plain n=1 need=0 | 0@1:9/0d 1@1:4/8 2#4:1/3 2#8:0.9/2d |");
  for (const MathType math : {MathType::kDefault, MathType::kTensorOp, MathType::kFma}) {
    std::vector<Offer> offers;
    AddTiles(kBackwardData, math, world.rows, world.tilings.measured,
             RequestFor(world.facts.problem, 4, false), offers);
    EXPECT_THAT(Texts(offers), ElementsAre("legacy:2@1x4 else legacy:0, told as legacy:0 4/3",
                                           "legacy:2@1x8 else legacy:0, told as legacy:0 7/2d"));
    for (const Offer& offer : offers) EXPECT_EQ(offer.math, math);
  }
}

TEST(KeepableAlone, PiecesInsideThePromiseComeFirst) {
  const std::vector<Candidate> rows = Rows("1@8:1/8 1@4:3/4 1@2:2/2");
  const auto alone = [&](size_t bytes) {
    Promise promise;
    promise.workspace_bytes = bytes;
    EXPECT_TRUE(MakeKeepableAlone(kForward, rows, "legacy:1", WithinBytes(8), promise));
    EXPECT_EQ(promise.reported.workspace_bytes, promise.workspace_bytes);
    return std::pair(promise.alone.Pieces(), promise.workspace_bytes);
  };
  EXPECT_EQ(alone(5), std::pair(2, size_t{5}));
  EXPECT_EQ(alone(2), std::pair(4, size_t{2}));
  EXPECT_EQ(alone(1), std::pair(4, size_t{2})) << "none is inside: what needs the least";
}

TEST(KeepableAlone, IsNotAskedOfOtherAlgorithmsAndOperations) {
  Promise promise;
  EXPECT_FALSE(MakeKeepableAlone(kForward, {}, "legacy:1", WithinBytes(8), promise));
  EXPECT_TRUE(MakeKeepableAlone(kForward, {}, "legacy:0", WithinBytes(8), promise));
  EXPECT_TRUE(MakeKeepableAlone(kBackwardData, {}, "legacy:1", WithinBytes(8), promise));
  EXPECT_TRUE(promise.alone.runs.empty());
}

TEST(OffersInBudget, AreWhatNeedsNoWorkspaceInTheTimeOfTheBestPlan) {
  // The offer that names the engine of the largest piece comes first.
  EXPECT_THAT(Texts(OffersInBudget("0@8:9/0 1@8:4/8 2@8:5/9", WithinBytes(8))),
              ElementsAre("legacy:0@8x1 else legacy:0, told as legacy:1 4/0",
                          "legacy:0@8x1 else legacy:0, told as legacy:0 4/0",
                          "legacy:0@8x1 else legacy:0, told as legacy:2 4/0"));
  EXPECT_THAT(OffersInBudget("1@8:4/8 1@4:1/4", WithinBytes(8)), IsEmpty());
}

TEST(OffersInBudget, PromiseNothingOfTheCallersWorkspace) {
  for (const Offer& offer : OffersInBudget("0@8:9/0 1@4:3/4 1@8:7/8", WithinBytes(8))) {
    EXPECT_EQ(offer.math, kMath);
    EXPECT_EQ(offer.promise.workspace_bytes, 0u);
    EXPECT_EQ(offer.promise.owned_bytes, 0u) << "what it may use is not known yet";
  }
}

TEST(OffersInBudget, AreAsExactAndDeterministicAsWhatTheyAreToldAs) {
  EXPECT_THAT(Texts(OffersInBudget("0@8:9/0d 1@8:4/8d 4f@8:3/8 2@8:2/8", WithinBytes(8))),
              ElementsAre("legacy:0@8x1 else legacy:0, told as legacy:1 4/0d",
                          "legacy:0@8x1 else legacy:0, told as legacy:2 2/0",
                          "legacy:0@8x1 else legacy:0, told as legacy:0 4/0d",
                          "legacy:0@8x1 else legacy:0, told as legacy:4 2/0"));
  EXPECT_THAT(Texts(OffersInBudget("0@8:9/0 1@8:4/8d", WithinBytes(8, true))), IsEmpty());
}

TEST(OffersInBudget, OfTheAlgorithmThatServesIdentitiesCanBeKeptAlone) {
  const std::string rows = "0@8:9/0 1@8:4/8";
  EXPECT_EQ(OffersInBudget(rows, WithinBytes(8), kForward).size(), 1u);
  EXPECT_EQ(OffersInBudget(rows + " 1@4:9/0", WithinBytes(8), kForward).size(), 2u);
}

Offer OfferOf(const std::string& engine, double time_ms, MathType math = kMath) {
  Offer offer{math, {}};
  offer.promise.reported = {engine, 8, time_ms, 0, false};
  return offer;
}

TEST(BestFirst, HasEachEngineAndMathTypeAtItsFastest) {
  const std::vector<Offer> best = BestFirst(
      {OfferOf("legacy:0", 9), OfferOf("legacy:1", 4), OfferOf("legacy:0", 3),
       OfferOf("legacy:1", 5, MathType::kDefault), OfferOf("legacy:2", 4), OfferOf("legacy:2", 3)});
  std::vector<std::string> texts;
  for (const Offer& offer : best) {
    const MicroConfiguration& told = offer.promise.reported;
    texts.push_back(told.engine.Text() + " " + std::to_string(static_cast<int>(told.time_ms)));
  }
  EXPECT_THAT(texts, ElementsAre("legacy:0 3", "legacy:2 3", "legacy:1 4", "legacy:1 5"));
}

ConvolutionProblem ProblemOf(Operation operation) {
  ConvolutionProblem problem = kWorld.facts.problem;
  problem.operation = operation;
  return problem;
}
const ConvolutionProblem kProblem = ProblemOf(kBackwardData), kForwardProblem = ProblemOf(kForward);

// Returns the offer for a program that names algorithm 1, which needs 16 bytes, under a limit of 8.
NamedOffer Named(NumericClass numeric = NumericClass::kDirect) {
  return {{kProblem, "legacy:1", numeric, 8}, 16};
}

TEST(OfferFor, IsTheFastestThatIsAsExactAndDeterministicAsWhatWasNamed) {
  const std::string rows = "0@8:9/0 1@8:4/16 4f@8:3/0 6w@8:2/0";
  EXPECT_EQ(OfferFor(Named(), Rows(rows))->configuration.Largest().engine, "legacy:0");
  EXPECT_EQ(OfferFor(Named(NumericClass::kFft), Rows(rows))->configuration.Largest().engine,
            "legacy:4");
  const std::string mixed = "0@8:9/0d 2@8:3/0 1@8:4/16";
  EXPECT_EQ(OfferFor(Named(), Rows(mixed))->configuration.Largest().engine, "legacy:2");
  EXPECT_EQ(OfferFor(Named(), Rows(mixed + "d"))->configuration.Largest().engine, "legacy:0");
  NamedOffer user = Named();
  user.named.deterministic = true;
  EXPECT_EQ(OfferFor(user, Rows(mixed))->configuration.Largest().engine, "legacy:0");
}

TEST(OfferFor, IsNoneWhereNothingKeepsIt) {
  EXPECT_FALSE(OfferFor(Named(), {}));
  EXPECT_FALSE(OfferFor(Named(), Rows("1@8:4/16 0@8:3/9 1@4:1/4")));
  EXPECT_FALSE(OfferFor(Named(), Rows("0@8:3/0"))) << "algorithm 1 may be deterministic";
}

TEST(OfferFor, IsNoneWhereAnIdentityActivationCouldNotKeepIt) {
  const ConvolutionProblem forward = ProblemOf(kForward);
  const NamedOffer offer = {{forward, "legacy:1", NumericClass::kDirect, 8}, 16};
  EXPECT_FALSE(OfferFor(offer, Rows("0@8:9/0 1@8:4/16")));
  const auto promise = OfferFor(offer, Rows("0@8:9/0 1@8:4/16 1@4:5/4"));
  ASSERT_TRUE(promise);
  EXPECT_EQ(promise->configuration.Largest().engine, "legacy:0");
  EXPECT_EQ(promise->alone.Largest().engine, "legacy:1");
  EXPECT_EQ(promise->workspace_bytes, 4u);
  const NamedOffer tight = {{forward, "legacy:1", NumericClass::kDirect, 2}, 16};
  const auto least = OfferFor(tight, Rows("0@8:9/0 1@8:4/16 1@4:5/4"));
  ASSERT_TRUE(least) << "beyond the limit, and less than the need";
  EXPECT_EQ(least->workspace_bytes, 4u);
}

// The limit is 8 bytes. In `measured`, neither undivided algorithm 3 nor its pieces fit the limit.
TEST(PiecesFor, AreOfAnotherAlgorithmThatIsAsExactAndAsDeterministic) {
  const ConvolutionProblem forward = ProblemOf(kForward);
  const auto ask = [&](const char* engine, const char* rows) {
    return PiecesFor({{forward, engine, NumericClass::kDirect, 8}, 16}, Rows(rows));
  };
  const char* const measured = "3@8:4/16 3@4:3/12 1@4:5/8 2@4:4/8 1w@4:1/8 g5@4:1/8";
  const auto promise = ask("legacy:3", measured);
  ASSERT_TRUE(promise);
  EXPECT_EQ(promise->configuration.Largest().engine, "legacy:2");
  EXPECT_EQ(promise->configuration.Pieces(), 2);
  EXPECT_EQ(promise->reported.engine, "legacy:3");
  EXPECT_EQ(promise->workspace_bytes, 8u);
  EXPECT_EQ(promise->reference.engine, "legacy:3");
  EXPECT_TRUE(promise->undivided.engine.empty());
  EXPECT_TRUE(promise->alone.runs.empty()) << "an identity activation runs by algorithm 1 alone";
  const auto own = ask("legacy:3", "3@8:4/16 3@4:9/8 2@4:4/8");
  ASSERT_TRUE(own);
  EXPECT_EQ(own->configuration.Largest().engine, "legacy:3") << "its own pieces serve all calls";
  EXPECT_FALSE(ask("legacy:3", "3@8:4/16d 3@4:3/12d 2@4:4/8")) << "less deterministic";
  EXPECT_TRUE(ask("legacy:3", "3@8:4/16d 3@4:3/12d 2@4:4/8d"));
  EXPECT_FALSE(ask("legacy:1", "1@8:4/16 1@4:3/12 2@4:4/8")) << "an identity activation may follow";
}

TEST(OfferFor, HasRoomForWhatIsMeasuredLater) {
  const std::vector<Candidate> rows = Rows("0@8:9/0 1@8:4/16");
  NamedOffer offer = Named();
  EXPECT_EQ(OfferFor(offer, rows)->workspace_bytes, 0u);
  EXPECT_FALSE(OfferFor(offer, rows)->provisional);
  offer.settled = false;
  EXPECT_EQ(OfferFor(offer, rows)->workspace_bytes, 8u) << "all that is allowed";
  EXPECT_TRUE(OfferFor(offer, rows)->provisional);
  offer.tunes = false;
  EXPECT_EQ(OfferFor(offer, rows)->workspace_bytes, 0u) << "nothing will be measured here";
  EXPECT_TRUE(OfferFor(offer, rows)->provisional);
}

TEST(OfferFor, KnowsNoTimesOfWhatIsOnlyRanked) {
  NamedOffer offer = Named();
  offer.ranked = true;
  const std::optional<Promise> promise = OfferFor(offer, Rows("0@8:1/0 1@8:0/16 2@8:2/0"));
  ASSERT_TRUE(promise);
  EXPECT_EQ(promise->undivided.engine, "legacy:0");
  EXPECT_EQ(promise->undivided.time_ms, kUnknownTime);
  EXPECT_EQ(promise->reported.time_ms, kUnknownTime);
  EXPECT_EQ(promise->baselines.own_api.time_ms, kUnknownTime);
  EXPECT_EQ(promise->baselines.any_api.time_ms, kUnknownTime);
  EXPECT_EQ(promise->configuration.runs[0].micro.time_ms, kUnknownTime);
}

// Returns the offer for a program that names algorithm 1, which needs 16 bytes, under a budget.
NamedOffer OfBudget(size_t budget_bytes, const ConvolutionProblem& problem = kProblem) {
  NamedOffer offer{{problem, "legacy:1", NumericClass::kDirect, 0, false, true}, 16};
  offer.budget_bytes = budget_bytes;
  return offer;
}

TEST(PiecesOfABudget, AreTheFastestInAFourthElseTheLeast) {
  const std::vector<Candidate> rows = Rows("1@8:4/16 1@4:3/8 1@2:2/4 1@1:1.5/2");
  const auto ask = [&](size_t budget_bytes) { return PiecesFor(OfBudget(budget_bytes), rows); };
  for (const auto& [budget, pieces, bytes] :
       {std::tuple(size_t{64}, 1, size_t{16}), {63, 2, 8}, {16, 4, 4}, {8, 8, 2}, {2, 8, 2}}) {
    SCOPED_TRACE(budget);
    const std::optional<Promise> promise = ask(budget);
    ASSERT_TRUE(promise);
    EXPECT_EQ(promise->configuration.Pieces(), pieces);
    EXPECT_EQ(promise->owned_bytes, bytes);
    EXPECT_EQ(AssuredBytes(*promise), bytes);
    EXPECT_EQ(promise->workspace_bytes, 0u);
    EXPECT_EQ(promise->reported.workspace_bytes, 0u);
    EXPECT_TRUE(promise->ran_here);
    EXPECT_TRUE(promise->undivided.engine.empty());
  }
  EXPECT_FALSE(ask(1));
}

TEST(PiecesOfABudget, ServeAnIdentityActivationBesideWhatNeedsNone) {
  const auto promise = OfferFor(OfBudget(32, kForwardProblem), Rows("0@8:9/0 1@8:4/16 1@4:3/8"));
  ASSERT_TRUE(promise);
  EXPECT_EQ(promise->configuration.Largest().engine, "legacy:0");
  EXPECT_EQ(promise->workspace_bytes, 0u);
  EXPECT_EQ(promise->owned_bytes, 0u);
  EXPECT_EQ(promise->alone.Pieces(), 2);
  EXPECT_EQ(AssuredBytes(*promise), 8u);
  const auto told = OfferFor(OfBudget(7, kForwardProblem), Rows("0@8:9/0 1@8:4/16 1@4:3/8"));
  ASSERT_TRUE(told) << "the program brings it";
  EXPECT_EQ(told->workspace_bytes, 8u);
  EXPECT_EQ(AssuredBytes(*told), 0u);
}

TEST(PiecesOfABudget, AreOffersWhereNothingElseServes) {
  std::vector<Offer> offers;
  AddPiecesInBudget(kBackwardData, kMath, Rows("1@8:4/16 1@4:3/8 3@8:2/6"), WithinBytes(32),
                    offers);
  EXPECT_THAT(Texts(offers), ElementsAre("legacy:1@4x2 else , told as legacy:1 6/0",
                                         "legacy:3@8x1 else , told as legacy:3 2/0"));
}

// Reads the choice of a workspace plan from `words`, in the notation of file=.
ConfirmedLegacyKernel File(const std::string& words) {
  return *std::get<CallFacts>(ReadWorld("plain need=0 | | file=" + words).facts.program).confirmed;
}

std::optional<Promise> OfFile(const std::string& words, const NamedRequest& named,
                              const std::optional<Promise>& told = {}) {
  return PromiseOfWorkspacePlan(File(words), named, told);
}

NamedRequest NamedIn(size_t limit_bytes) {
  return {kProblem, "legacy:1", NumericClass::kDirect, limit_bytes};
}

TEST(PromiseOfWorkspacePlan, KeepsThePlanWithWhatTakesItsPlace) {
  const auto promise = OfFile("1@4:3/4x2~1@8:0/8,0@8:1/0", NamedIn(4));
  ASSERT_TRUE(promise);
  EXPECT_EQ(Text(*promise), "legacy:1@4x2 else legacy:0, told as legacy:1 6/4");
  EXPECT_TRUE(promise->of_workspace_plan);
  EXPECT_EQ(promise->limit_bytes, 4u);
  EXPECT_EQ(promise->undivided.time_ms, kUnknownTime) << "the file has none";
  EXPECT_EQ(promise->baselines.own_api.time_ms, kUnknownTime);
  EXPECT_EQ(promise->baselines.any_api.time_ms, kUnknownTime);
  EXPECT_EQ(promise->configuration.runs[0].micro.time_ms, 3);
}

TEST(PromiseOfWorkspacePlan, HasTheFilesTimeOfAnUndividedPlan) {
  const auto promise = OfFile("0@8:3/0~1@8:0/8", NamedIn(4));
  ASSERT_TRUE(promise);
  EXPECT_EQ(promise->undivided.time_ms, 3);
}

TEST(PromiseOfWorkspacePlan, IsNoneBeyondEitherLimit) {
  const std::string words = "1@4:3/4x2~0@8:1/0";
  EXPECT_TRUE(OfFile(words, NamedIn(4)));
  EXPECT_FALSE(OfFile(words, NamedIn(3)));
  ConfirmedLegacyKernel file = File(words);
  file.limit_bytes = 3;
  EXPECT_FALSE(PromiseOfWorkspacePlan(file, NamedIn(4)));
}

TEST(PromiseOfWorkspacePlan, IsNoneWhereItIsLessExactOrDeterministicThanWhatWasNamed) {
  EXPECT_FALSE(OfFile("4f@4:3/4x2~0@8:1/0,1@8:0/8", NamedIn(8)));
  NamedRequest fft = NamedIn(8);
  fft.numeric = NumericClass::kFft;
  EXPECT_TRUE(OfFile("4f@4:3/4x2~0@8:1/0,1@8:0/8", fft));
  EXPECT_FALSE(OfFile("2@4:3/4x2~0@8:1/0d,1@8:0/8d", NamedIn(8)));
  EXPECT_TRUE(OfFile("2@4:3/4x2~0@8:1/0d,1@8:0/8", NamedIn(8)));
}

TEST(PromiseOfWorkspacePlan, MayRunWhatIsAsRandomAsWasTold) {
  const std::string words = "2@4:3/4x2~0@8:1/0d,1@8:0/8d";
  Promise told;
  told.reported.deterministic = false;
  EXPECT_TRUE(OfFile(words, NamedIn(8), told));
  told.reported.deterministic = true;
  EXPECT_FALSE(OfFile(words, NamedIn(8), told));
  told.reported.deterministic = false;
  NamedRequest user = NamedIn(8);
  user.deterministic = true;
  EXPECT_FALSE(OfFile(words, user, told));
}

TEST(PromiseOfWorkspacePlan, NamesTheLargestPieceToAProgramThatNamesNone) {
  NamedRequest named = NamedIn(8);
  named.engine = {};
  const auto promise = OfFile("4f@4:3/4x2~0@8:1/0,4f@8:0/9", named);
  ASSERT_TRUE(promise);
  EXPECT_EQ(promise->reported.engine, "legacy:4");
}

// A program asks the library how much workspace the told engine needs for the whole mini-batch. So
// the library must support that engine for the whole mini-batch.
TEST(PromiseOfWorkspacePlan, NamesNoEngineThatServesPiecesAlone) {
  NamedRequest named = NamedIn(8);
  named.engine = {};
  for (const bool in_budget : {false, true}) {
    named.in_budget = in_budget;
    const auto promise = OfFile("2@4:3/4x2~0@8:1/0", named);
    ASSERT_TRUE(promise);
    EXPECT_EQ(promise->reported.engine, "legacy:0");
    EXPECT_EQ(promise->configuration.Pieces(), 2);
    EXPECT_FALSE(OfFile("4f@4:3/4x2~0@8:1/0", named)) << "what would be told is more exact";
  }
}

TEST(PromiseOfWorkspacePlan, OfOneBudgetNeedsNothingOfTheCallers) {
  NamedRequest named = NamedIn(8);
  named.in_budget = true;
  auto promise = OfFile("1@4:3/4x2~0@8:1/0", named);
  ASSERT_TRUE(promise);
  EXPECT_EQ(promise->workspace_bytes, 0u);
  EXPECT_EQ(promise->owned_bytes, 4u);
  EXPECT_EQ(promise->reported.engine, "legacy:0") << "it keeps the promise";
  EXPECT_FALSE(OfFile("1@4:3/4x2~2@8:1/8", named)) << "nothing runs without workspace";
  named.engine = {};
  promise = OfFile("1@4:3/4x2~0@8:1/0d,1@8:0/9", named);
  ASSERT_TRUE(promise);
  EXPECT_EQ(promise->reported.engine, "legacy:1");
  EXPECT_FALSE(promise->reported.deterministic) << "its pieces are not";
  EXPECT_TRUE(OfFile("1@4:3/4dx2~0@8:1/0d", named)->reported.deterministic);
  EXPECT_FALSE(OfFile("1@4:3/4dx2~0@8:1/0", named)) << "what takes its place is less";
}

}  // namespace
}  // namespace ucudnn::planning
