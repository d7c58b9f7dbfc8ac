// Tests the claims and records that ranks send each other, the verdicts on claims, and the
// comparisons of records. No test needs a device.
#include "spatial/agreement.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "spatial/call_record.h"

namespace ucudnn::spatial {
namespace {

Claim SomeClaim(int32_t rows) {
  Claim claim;
  claim.options = "ucudnn 1 h2";
  claim.kernel = "forward: 3x3, and 5:words\nof two lines";
  claim.extents = {1, rows, 6};
  claim.sequence = 4;
  claim.input_hash = ~uint64_t{0};
  claim.prepared = {0, 17, ~uint64_t{0}};
  claim.not_ready = std::string("no \0 engine", 11);
  return claim;
}

void ExpectContainsAll(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    EXPECT_NE(text.find(word), std::string::npos) << word << " is not in: " << text;
  }
}

TEST(Claims, AreReadAsTheyWereWritten) {
  const Claim claim = SomeClaim(8);
  const Result<Claim> read = DecodeClaim(EncodeClaim(claim));
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_EQ(read->options, claim.options);
  EXPECT_EQ(read->kernel, claim.kernel);
  EXPECT_EQ(read->extents, claim.extents);
  EXPECT_EQ(read->sequence, claim.sequence);
  EXPECT_EQ(read->input_hash, claim.input_hash);
  EXPECT_EQ(read->prepared, claim.prepared);
  EXPECT_EQ(read->not_ready, claim.not_ready);
}

TEST(Claims, EveryPartOfOneIsRefused) {
  const std::string text = EncodeClaim(SomeClaim(8));
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(DecodeClaim(std::string_view(text).substr(0, length)).ok()) << length;
  }
  EXPECT_FALSE(DecodeClaim(text + "1:a").ok());
  EXPECT_FALSE(DecodeClaim(text + '\0').ok());
}

TEST(Claims, HostileBytesAreRefusedOrReadAsTheyAre) {
  for (const char* const text : {"", ":", "1", "-1:", "1:", "99999999999999999999999:a",
                                 "18446744073709551615:a", "14:ucudnn", "14:ucudnn claim 2",
                                 "14:ucudnn claim 1", "14:ucudnn claim 10:0:1:x1:11:11:11:10:0:"}) {
    EXPECT_FALSE(DecodeClaim(text).ok()) << text;
  }
  const unsigned seed = 5;
  std::mt19937 random(seed);
  const std::string text = EncodeClaim(SomeClaim(8));
  int readable = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string other = text;
    for (unsigned changes = random() % 3 + 1; changes > 0; --changes) {
      other[random() % other.size()] = static_cast<char>(random());
    }
    const Result<Claim> read = DecodeClaim(other);
    // A claim that can be read must keep its meaning when it is encoded again. Only the way in
    // which numbers are written may change.
    if (!read.ok()) continue;
    const Result<Claim> again = DecodeClaim(EncodeClaim(*read));
    ASSERT_TRUE(again.ok()) << "seed " << seed << ", case " << i;
    EXPECT_EQ(EncodeClaim(*again), EncodeClaim(*read)) << "seed " << seed << ", case " << i;
    ++readable;
  }
  EXPECT_TRUE(0 < readable && readable < 20000) << readable;
}

TEST(Agreement, WhatDiffersIsNamedWithRankAndValues) {
  std::vector<Claim> claims(3, SomeClaim(8));
  claims[2].options = "ucudnn 2 h2";
  Result<Agreed> agreed = Agree(claims);
  ASSERT_FALSE(agreed.ok());
  ExpectContainsAll(agreed.message(), {"rank 0 has ucudnn 1 h2", "rank 2 has ucudnn 2 h2"});
  claims[2] = claims[0];
  claims[1].kernel = "backward_data";
  agreed = Agree(claims);
  ASSERT_FALSE(agreed.ok());
  ExpectContainsAll(agreed.message(), {"rank 0 has forward: 3x3", "rank 1 has backward_data"});
  claims[1] = claims[0];
  claims[2].sequence = 5;
  agreed = Agree(claims);
  ASSERT_FALSE(agreed.ok());
  ExpectContainsAll(agreed.message(), {"for rank 0 it is call 4", "for rank 2 call 5"});
}

TEST(Agreement, UnreadableClaimIsItsRanksFault) {
  const std::vector<std::string> texts = {EncodeClaim(SomeClaim(8)), "hello"};
  const Result<Agreed> agreed = AgreeOn(texts);
  ASSERT_FALSE(agreed.ok());
  ExpectContainsAll(agreed.message(), {"rank 1: its claim cannot be read"});
}

TEST(Agreement, FirstRankThatIsNotReadyIsTheRefusal) {
  std::vector<Claim> claims(3, SomeClaim(8));
  for (Claim& claim : claims) claim.not_ready.clear();
  EXPECT_EQ(Agree(claims)->refusal, "");
  claims[1].not_ready = "no engine";
  claims[2].not_ready = "no memory";
  const Result<Agreed> agreed = Agree(claims);
  ASSERT_TRUE(agreed.ok());
  EXPECT_EQ(agreed->refusal, "rank 1 cannot run its part: no engine");
}

TEST(Agreement, OnlyWhatAllRanksHavePreparedIsPrepared) {
  std::vector<Claim> claims = {SomeClaim(8), SomeClaim(7)};
  const std::vector<Spatial> extents = {claims[0].extents, claims[1].extents};
  const std::vector<Spatial> swapped = {extents[1], extents[0]};
  const std::vector<OwnWindow> windows(extents.size());
  std::vector<OwnWindow> others = windows;
  others[1].extents = {1, 2, 2};
  EXPECT_NE(ExtentsHash(extents, windows), ExtentsHash(swapped, windows));
  EXPECT_NE(ExtentsHash(extents, windows), ExtentsHash(extents, others));
  EXPECT_FALSE(Agree(claims)->is_prepared);
  claims[0].prepared.push_back(ExtentsHash(extents, windows));
  EXPECT_FALSE(Agree(claims)->is_prepared);
  claims[1].prepared = {ExtentsHash(swapped, windows)};
  EXPECT_FALSE(Agree(claims)->is_prepared);
  claims[1].prepared = {ExtentsHash(extents, windows)};
  EXPECT_TRUE(Agree(claims)->is_prepared);
}

TEST(Agreement, EqualInputsNeedAHashOnAll) {
  std::vector<Claim> claims(2, SomeClaim(8));
  EXPECT_TRUE(Agree(claims)->equal_inputs);
  claims[1].input_hash = 1;
  EXPECT_FALSE(Agree(claims)->equal_inputs);
  for (Claim& claim : claims) claim.input_hash = 0;
  EXPECT_FALSE(Agree(claims)->equal_inputs);
}

TEST(Agreement, NumbersAreReadOrTheirRankIsNamed) {
  const std::array<uint64_t, 2> numbers = {3, ~uint64_t{0}};
  const std::string good = EncodeNumbers(numbers, Status::Ok());
  const auto read = DecodeNumbers(std::vector<std::string>{good, good}, 2);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ((*read)[1], (std::vector<uint64_t>{3, ~uint64_t{0}}));
  const std::string bad = EncodeNumbers(numbers, Status::Error("no memory"));
  const auto failed = DecodeNumbers(std::vector<std::string>{good, bad}, 2);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.message(), "rank 1: no memory");
  EXPECT_FALSE(DecodeNumbers(std::vector<std::string>{good}, 1).ok());
  EXPECT_FALSE(DecodeNumbers(std::vector<std::string>{good}, 3).ok());
  EXPECT_FALSE(DecodeNumbers(std::vector<std::string>{"0:2:-11:1"}, 2).ok());
  EXPECT_FALSE(DecodeNumbers(std::vector<std::string>{"0:2:1x1:1"}, 2).ok());
  EXPECT_FALSE(DecodeNumbers(std::vector<std::string>{""}, 2).ok());
}

TEST(Agreement, KernelTextLeavesOutWhatTheGridCuts) {
  const SpatialGrid rows = *SpatialGrid::Parse("h2");
  ConvolutionProblem p;
  p.n = 2, p.c = 2, p.k = 3;
  p.x = {1, 8, 6};
  const std::string text = KernelText(p, {}, rows);
  ConvolutionProblem other = p;
  other.x[1] = 9;
  EXPECT_EQ(KernelText(other, {}, rows), text);
  other.x[2] = 7;
  EXPECT_NE(KernelText(other, {}, rows), text);
  for (const CallProperties& form :
       {CallProperties{.is_fused = true}, CallProperties{.is_plan = true},
        CallProperties{.work = SplitWork::kBiasGradient}}) {
    EXPECT_NE(KernelText(p, form, rows), text);
  }
  const auto changed = [&](auto change) {
    ConvolutionProblem q = p;
    change(q);
    return KernelText(q, {}, rows);
  };
  EXPECT_NE(changed([](auto& q) { q.pad = {0, 1, 0}; }), text);
  EXPECT_NE(changed([](auto& q) { q.stride = {1, 2, 1}; }), text);
  EXPECT_NE(changed([](auto& q) { q.dilation = {1, 2, 1}; }), text);
  EXPECT_NE(changed([](auto& q) { q.w = {1, 2, 1}; }), text);
  EXPECT_NE(changed([](auto& q) { q.groups = 2, q.k = 4; }), text);
  EXPECT_NE(changed([](auto& q) { q.n = 3; }), text);
  EXPECT_NE(changed([](auto& q) { q.type = DataType::kHalf; }), text);
  EXPECT_NE(changed([](auto& q) { q.compute = DataType::kDouble; }), text);
  EXPECT_NE(changed([](auto& q) { q.mode = ConvolutionMode::kConvolution; }), text);
  EXPECT_NE(changed([](auto& q) { q.operation = Operation::kBackwardData; }), text);
}

TEST(CopiedAxes, AreTheCutAxesOnWhichEveryRankHasExtentOne) {
  const SpatialGrid grid = *SpatialGrid::Parse("h2w2");
  ConvolutionProblem p;
  p.operation = Operation::kBackwardFilter;
  const std::vector<Spatial> strip = {{1, 1, 3}, {1, 1, 4}, {1, 1, 3}, {1, 1, 4}};
  using Axes = std::array<bool, kMaxSpatial>;
  EXPECT_EQ(*CopiedAxes(p, grid, strip, SpatialOnes::kReplicated), (Axes{false, true, false}));
  EXPECT_EQ(*CopiedAxes(p, grid, strip, SpatialOnes::kSplit), (Axes{}));
  const auto unset = CopiedAxes(p, grid, strip, std::nullopt);
  ASSERT_FALSE(unset.ok());
  ExpectContainsAll(unset.message(), {"h: ", "UCUDNN_SPATIAL_ONE"});
  p.operation = Operation::kForward;
  EXPECT_TRUE(CopiedAxes(p, grid, strip, std::nullopt).ok());
  p.w[1] = 3;
  EXPECT_FALSE(CopiedAxes(p, grid, strip, std::nullopt).ok());
  const std::vector<Spatial> uneven = {{1, 1, 3}, {1, 1, 4}, {1, 2, 3}, {1, 2, 4}};
  EXPECT_EQ(*CopiedAxes(p, grid, uneven, SpatialOnes::kReplicated), (Axes{}));
}

// ---- Records

CallRecord RecordOf(uint64_t sequence, const Spatial& extents = {1, 8, 6}) {
  CallRecord record;
  record.sequence = sequence;
  record.kernel = 77;
  record.extents = extents;
  return record;
}

std::string_view BytesOf(const CallRecord& record) {
  return {reinterpret_cast<const char*>(&record), sizeof record};
}

const auto kAgreedExtents =
    std::make_shared<const std::vector<Spatial>>(std::vector<Spatial>{{1, 8, 6}, {1, 7, 6}});

TEST(Records, EqualCallsAreNoDifferenceInAnyOrder) {
  CallRecords records(0, 2);
  for (uint64_t call = 1; call < 1000; ++call) {
    if (call % 3 == 0) {
      EXPECT_EQ(records.AddOf(1, BytesOf(RecordOf(call, {1, 7, 6}))), std::nullopt);
      EXPECT_EQ(records.Add(RecordOf(call), kAgreedExtents), std::nullopt);
    } else {
      EXPECT_EQ(records.Add(RecordOf(call), kAgreedExtents), std::nullopt);
      EXPECT_EQ(records.AddOf(1, BytesOf(RecordOf(call, {1, 7, 6}))), std::nullopt);
    }
    EXPECT_EQ(records.ahead(), 0U);
  }
  EXPECT_EQ(records.last(), 999U);
}

// Expects that the difference is found in both orders: this rank's call first, and the other rank's
// record first.
void ExpectDifference(const CallRecord& mine, const CallRecord& theirs,
                      const std::vector<std::string>& words) {
  CallRecords first(0, 2);
  EXPECT_EQ(first.Add(mine, kAgreedExtents), std::nullopt);
  EXPECT_FALSE(first.differ());
  ExpectContainsAll(first.AddOf(1, BytesOf(theirs)).value_or(""), words);
  EXPECT_TRUE(first.differ());
  CallRecords second(0, 2);
  EXPECT_EQ(second.AddOf(1, BytesOf(theirs)), std::nullopt);
  EXPECT_FALSE(second.differ());
  ExpectContainsAll(second.Add(mine, kAgreedExtents).value_or(""), words);
  EXPECT_TRUE(second.differ());
}

TEST(Records, EveryDifferenceIsNamed) {
  const CallRecord mine = RecordOf(1);
  const auto with = [](auto change) {
    CallRecord record = RecordOf(1, {1, 7, 6});
    change(record);
    return record;
  };
  const std::string both = "call 1 of rank 0 and of rank 1 differ";
  ExpectDifference(mine, with([](auto& r) { r.kernel = 78; }),
                   {"what was computed from split call 1 on may be wrong"});
  ExpectDifference(mine, with([](auto& r) { r.kernel = 78; }), {both, "not the same kernel"});
  ExpectDifference(mine, with([](auto& r) { r.operation = 2; }), {both, "not the same kernel"});
  ExpectDifference(mine, with([](auto& r) { r.extents[1] = 9; }),
                   {both, "1x9x6", "1x7x6", "UCUDNN_SPATIAL_AGREE=each"});
  ExpectDifference(mine, with([](auto& r) { r.thread = 1; }), {both, "another thread"});
  ExpectDifference(mine, with([](auto& r) { r.handle = 1; }), {both, "handle"});
  ExpectDifference(mine, with([](auto& r) { r.kind = RecordKind::kRefused; }),
                   {both, "of rank 0 it is split, of rank 1 it was refused"});
  ExpectDifference(mine, with([](auto& r) { r.captured = 1; }), {both, "inside a CUDA graph"});
  ExpectDifference(mine, with([](auto& r) { r.kind = static_cast<RecordKind>(200); }), {both});
}

TEST(Records, HostileRecordsAreRefused) {
  const CallRecord record = RecordOf(1, {1, 7, 6});
  for (const int rank : {-1, 0, 2, 1000}) {
    CallRecords records(0, 2);
    ExpectContainsAll(records.AddOf(rank, BytesOf(record)).value_or(""), {"cannot be read"});
  }
  CallRecords records(0, 2);
  std::string longer(BytesOf(record));
  longer.push_back('x');
  for (size_t size = 0; size < sizeof record; ++size) {
    EXPECT_TRUE(records.AddOf(1, BytesOf(record).substr(0, size)).has_value()) << size;
  }
  EXPECT_TRUE(records.AddOf(1, longer).has_value());
  for (const uint64_t sequence : {uint64_t{0}, uint64_t{2}, ~uint64_t{0}}) {
    ExpectContainsAll(records.AddOf(1, BytesOf(RecordOf(sequence))).value_or(""),
                      {"of rank 1 does not follow call 0"});
  }
  EXPECT_EQ(records.AddOf(1, BytesOf(record)), std::nullopt);
  EXPECT_TRUE(records.AddOf(1, BytesOf(record)).has_value());
}

TEST(Records, AreKeptForAsManyCallsAsARankMayBeAhead) {
  const uint64_t most = CallRecords::MostAhead(2);
  CallRecords records(0, 2);
  // Rank 0's record of call 1 names another thread than rank 1's record of this call. All later
  // records of the two ranks agree.
  for (uint64_t call = 1; call <= most; ++call) {
    CallRecord record = RecordOf(call);
    record.thread = call == 1 ? 5 : 0;
    EXPECT_EQ(records.Add(record, kAgreedExtents), std::nullopt);
    EXPECT_EQ(records.ahead(), call);
  }
  EXPECT_TRUE(records.AddOf(1, BytesOf(RecordOf(1, {1, 7, 6}))).has_value());
  for (uint64_t call = 2; call <= most; ++call) {
    ASSERT_EQ(records.AddOf(1, BytesOf(RecordOf(call, {1, 7, 6}))), std::nullopt) << call;
  }
  EXPECT_EQ(records.ahead(), 0U);
}

// A program whose extents change with every call needs no more memory than a program whose extents
// stay the same.
TEST(Records, ExtentsAreKeptNoLongerThanTheirCalls) {
  const uint64_t most = CallRecords::MostAhead(2);
  CallRecords records(0, 2);
  std::vector<std::weak_ptr<const std::vector<Spatial>>> all;
  for (uint64_t call = 1; call <= 2 * most; ++call) {
    const auto rows = static_cast<int32_t>(call);
    auto extents = std::make_shared<const std::vector<Spatial>>(
        std::vector<Spatial>{{1, rows, 6}, {1, rows + 1, 6}});
    all.push_back(extents);
    ASSERT_EQ(records.Add(RecordOf(call, {1, rows, 6}), std::move(extents)), std::nullopt);
    ASSERT_EQ(records.AddOf(1, BytesOf(RecordOf(call, {1, rows + 1, 6}))), std::nullopt);
  }
  EXPECT_TRUE(all[most - 1].expired());
  EXPECT_FALSE(all[most].expired());
  // Without agreed extents (null), all ranks are expected to have the extents of this rank.
  const uint64_t next = 2 * most + 1;
  EXPECT_EQ(records.Add(RecordOf(next, {1, 5, 6}), nullptr), std::nullopt);
  ExpectContainsAll(records.AddOf(1, BytesOf(RecordOf(next, {1, 4, 6}))).value_or(""),
                    {"1x4x6", "1x5x6"});
}

TEST(Records, RankThatIsTooFarAheadIsRefused) {
  CallRecords records(0, 2);
  uint64_t call = 0;
  while (!records.AddOf(1, BytesOf(RecordOf(call + 1, {1, 7, 6})))) ++call;
  // CallRecords keeps at most 2 * MostAhead records of another rank's calls that this rank has not
  // made yet.
  EXPECT_GE(call, CallRecords::MostAhead(2));
  EXPECT_LE(call, 2 * CallRecords::MostAhead(2));
  for (uint64_t own = 1; own <= call; ++own) {
    ASSERT_EQ(records.Add(RecordOf(own), kAgreedExtents), std::nullopt) << own;
  }
}

TEST(Records, CallsThatAreNoFirstOnesAreSeenEarly) {
  CallRecords records(0, 2);
  CallRecord agreed = RecordOf(1, {1, 7, 6}), split = RecordOf(2, {1, 7, 6});
  agreed.kind = RecordKind::kAgreed;
  EXPECT_FALSE(records.NotAgreeing());
  EXPECT_EQ(records.AddOf(1, BytesOf(agreed)), std::nullopt);
  EXPECT_EQ(records.AddOf(1, BytesOf(split)), std::nullopt);
  EXPECT_FALSE(records.NotAgreeing());
  CallRecord own = RecordOf(1);
  own.kind = RecordKind::kAgreed;
  EXPECT_EQ(records.Add(own, kAgreedExtents), std::nullopt);
  ASSERT_TRUE(records.NotAgreeing());
  EXPECT_EQ(records.NotAgreeing()->rank, 1);
  EXPECT_EQ(records.NotAgreeing()->record, split);
}

}  // namespace
}  // namespace ucudnn::spatial
