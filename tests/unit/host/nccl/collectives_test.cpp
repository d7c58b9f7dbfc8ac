// Tests every collective against plain loops, for 1 to 5 ranks, every type and operation, in place
// and not. Values are small powers of two with signs, so that sums and products are exact in every
// type.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/unit/host/nccl/processes.h"

namespace hostgpu::nccl::testing {
namespace {

constexpr size_t kCount = 5003;  // a prime, so ranks and tiles get parts of unequal size

template <class T>
struct TypeOf;
#define TYPE(name, value)              \
  template <>                          \
  struct TypeOf<name> {                \
    static constexpr auto kIs = value; \
  }
TYPE(int8_t, ncclInt8);
TYPE(uint8_t, ncclUint8);
TYPE(int32_t, ncclInt32);
TYPE(uint32_t, ncclUint32);
TYPE(int64_t, ncclInt64);
TYPE(uint64_t, ncclUint64);
TYPE(__half, ncclFloat16);
TYPE(__nv_bfloat16, ncclBfloat16);
TYPE(float, ncclFloat32);
TYPE(double, ncclFloat64);

template <class T>
double ToDouble(T value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<double>(value);
  } else {
    return static_cast<float>(value);
  }
}
template <class T>
T FromDouble(double value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<T>(value);
  } else {
    return T(static_cast<float>(value));
  }
}

// Returns element `i` of the input of `rank`.
template <class T>
T Value(int rank, size_t i) {
  const size_t mixed = (i * 2654435761u + static_cast<size_t>(rank) * 40503u) >> 7;
  const double magnitude = mixed % 2 ? 1 : 2;
  const bool negative = std::numeric_limits<T>::is_signed && mixed / 2 % 2;
  return FromDouble<T>(negative ? -magnitude : magnitude);
}
// These specialisations convert from float, because std::numeric_limits does not know CUDA's types.
template <>
__half Value<__half>(int rank, size_t i) {
  return __half(Value<float>(rank, i));
}
template <>
__nv_bfloat16 Value<__nv_bfloat16>(int rank, size_t i) {
  return __nv_bfloat16(Value<float>(rank, i));
}

template <class T>
std::vector<T> Values(int rank, size_t count) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = Value<T>(rank, i);
  return values;
}

template <class T>
double Expected(ncclRedOp_t op, int ranks, size_t i) {
  double result = ToDouble(Value<T>(0, i));
  for (int rank = 1; rank < ranks; ++rank) {
    const double value = ToDouble(Value<T>(rank, i));
    if (op == ncclProd) {
      result *= value;
    } else if (op == ncclMax) {
      result = std::max(result, value);
    } else if (op == ncclMin) {
      result = std::min(result, value);
    } else {
      result += value;
    }
  }
  if (op != ncclAvg) return result;
  return std::is_integral_v<T> ? std::trunc(result / ranks) : result / ranks;
}

// Returns the largest relative error of rounding to T; 0 for integers.
template <class T>
double UnitRoundoff() {
  if constexpr (std::is_same_v<T, __half>) {
    return 0x1p-11;
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return 0x1p-8;
  } else {
    return std::is_integral_v<T> ? 0 : std::numeric_limits<T>::epsilon() / 2;
  }
}

// Returns the largest allowed error of an element. An average multiplies each value by a rounded
// share and sums the products; the share, each product and each partial sum (of at most 2 in
// magnitude) are rounded once. All other operations are exact.
template <class T>
double Tolerance(ncclRedOp_t op, int ranks) {
  const bool power_of_two = (ranks & (ranks - 1)) == 0;
  if (op != ncclAvg || power_of_two || std::is_integral_v<T>) return 0;
  return 2 * (2 * UnitRoundoff<T>()) + (ranks - 1) * 2 * UnitRoundoff<T>();
}

template <class T>
void ExpectReduced(const std::vector<T>& got, ncclRedOp_t op, int ranks, size_t first) {
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(ToDouble(got[i]), Expected<T>(op, ranks, first + i), Tolerance<T>(op, ranks))
        << "operation " << op << " of " << ranks << " ranks at " << first + i;
  }
}

template <class T>
void ExpectEqual(const std::vector<T>& got, const std::vector<T>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(ToDouble(got[i]), ToDouble(expected[i])) << "at " << i;
  }
}

template <class T>
class Reductions : public ::testing::Test {};
using Types = ::testing::Types<int8_t, uint8_t, int32_t, uint32_t, int64_t, uint64_t, __half,
                               __nv_bfloat16, float, double>;
TYPED_TEST_SUITE(Reductions, Types);

template <class T>
void AllReduceOnce(const Rank& rank, ncclRedOp_t op) {
  constexpr ncclDataType_t kType = TypeOf<T>::kIs;
  const Array<T> from(Values<T>(rank.rank, kCount)), to(kCount, FromDouble<T>(0));
  EXPECT_NCCL(ncclAllReduce(from.data(), to.data(), kCount, kType, op, rank.comm, rank.stream));
  ExpectReduced(to.Read(rank.stream), op, rank.ranks, 0);
  ExpectEqual(from.Read(rank.stream), Values<T>(rank.rank, kCount));
  EXPECT_NCCL(ncclAllReduce(from.data(), from.data(), kCount, kType, op, rank.comm, rank.stream));
  ExpectReduced(from.Read(rank.stream), op, rank.ranks, 0);
}

template <class T>
void ReduceScatterOnce(const Rank& rank, ncclRedOp_t op) {
  constexpr ncclDataType_t kType = TypeOf<T>::kIs;
  const size_t all = kCount * static_cast<size_t>(rank.ranks);
  const size_t mine = kCount * static_cast<size_t>(rank.rank);
  const Array<T> from(Values<T>(rank.rank, all)), to(kCount, FromDouble<T>(0));
  EXPECT_NCCL(ncclReduceScatter(from.data(), to.data(), kCount, kType, op, rank.comm, rank.stream));
  ExpectReduced(to.Read(rank.stream), op, rank.ranks, mine);
  EXPECT_NCCL(ncclReduceScatter(from.data(), from.data() + mine, kCount, kType, op, rank.comm,
                                rank.stream));
  const std::vector<T> whole = from.Read(rank.stream);
  ExpectReduced(std::vector<T>(whole.begin() + mine, whole.begin() + mine + kCount), op, rank.ranks,
                mine);
}

template <class T>
void ReduceOnce(const Rank& rank, ncclRedOp_t op, int root) {
  constexpr ncclDataType_t kType = TypeOf<T>::kIs;
  const Array<T> from(Values<T>(rank.rank, kCount)), to(kCount, FromDouble<T>(3));
  T* const target = rank.rank == root ? to.data() : nullptr;
  EXPECT_NCCL(ncclReduce(from.data(), target, kCount, kType, op, root, rank.comm, rank.stream));
  if (rank.rank == root) {
    ExpectReduced(to.Read(rank.stream), op, rank.ranks, 0);
  } else {
    ExpectEqual(to.Read(rank.stream), std::vector<T>(kCount, FromDouble<T>(3)));
  }
  EXPECT_NCCL(
      ncclReduce(from.data(), from.data(), kCount, kType, op, root, rank.comm, rank.stream));
  if (rank.rank == root) {
    ExpectReduced(from.Read(rank.stream), op, rank.ranks, 0);
  } else {
    ExpectEqual(from.Read(rank.stream), Values<T>(rank.rank, kCount));
  }
}

TYPED_TEST(Reductions, GiveWhatLoopsGive) {
  for (int ranks = 1; ranks <= kDevices; ++ranks) {
    WithRanks(ranks, [](Rank& rank) {
      for (const ncclRedOp_t op : {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg}) {
        AllReduceOnce<TypeParam>(rank, op);
        ReduceScatterOnce<TypeParam>(rank, op);
        ReduceOnce<TypeParam>(rank, op, (op + 1) % rank.ranks);
      }
    });
  }
}

// The test gathers 8-bit floats, which the stand-in moves without computing with them.
TEST(Collectives, AllGatherPutsEachRanksPartWhereItBelongs) {
  for (int ranks = 1; ranks <= kDevices; ++ranks) {
    WithRanks(ranks, [](Rank& rank) {
      const size_t all = kCount * static_cast<size_t>(rank.ranks);
      std::vector<uint8_t> expected;
      for (int other = 0; other < rank.ranks; ++other) {
        const std::vector<uint8_t> part = Values<uint8_t>(other, kCount);
        expected.insert(expected.end(), part.begin(), part.end());
      }
      const Array<uint8_t> from(Values<uint8_t>(rank.rank, kCount)), to(all, 0), in_place(all, 0);
      EXPECT_NCCL(
          ncclAllGather(from.data(), to.data(), kCount, ncclFloat8e4m3, rank.comm, rank.stream));
      ExpectEqual(to.Read(rank.stream), expected);
      uint8_t* const own = in_place.data() + kCount * static_cast<size_t>(rank.rank);
      EXPECT_CUDA(cudaMemcpyAsync(own, from.data(), kCount, cudaMemcpyDeviceToDevice, rank.stream));
      EXPECT_NCCL(ncclAllGather(own, in_place.data(), kCount, ncclUint8, rank.comm, rank.stream));
      ExpectEqual(in_place.Read(rank.stream), expected);
    });
  }
}

TEST(Collectives, BroadcastGivesAllWhatTheRootHas) {
  for (int ranks = 1; ranks <= kDevices; ++ranks) {
    WithRanks(ranks, [](Rank& rank) {
      for (int root = 0; root < rank.ranks; ++root) {
        const Array<float> from(Values<float>(rank.rank, kCount)), to(kCount, 0.0f);
        const bool is_root = rank.rank == root;
        EXPECT_NCCL(ncclBroadcast(is_root ? from.data() : nullptr, to.data(), kCount, ncclFloat,
                                  root, rank.comm, rank.stream));
        ExpectEqual(to.Read(rank.stream), Values<float>(root, kCount));
        EXPECT_NCCL(ncclBroadcast(from.data(), from.data(), kCount, ncclFloat, root, rank.comm,
                                  rank.stream));
        ExpectEqual(from.Read(rank.stream), Values<float>(root, kCount));
      }
    });
  }
}

TEST(Collectives, AllRanksHaveTheSameBitsEachTime) {
  constexpr unsigned kSeed = 11;
  std::vector<std::vector<float>> results(kDevices);
  WithRanks(kDevices, [&](Rank& rank) {
    std::mt19937 random(kSeed + static_cast<unsigned>(rank.rank));
    std::vector<float> values(kCount);
    for (float& value : values) value = std::uniform_real_distribution<float>(-1, 1)(random);
    const Array<float> from(values), to(kCount, 0.0f), again(kCount, 0.0f);
    for (const Array<float>* target : {&to, &again}) {
      EXPECT_NCCL(ncclAllReduce(from.data(), target->data(), kCount, ncclFloat, ncclSum, rank.comm,
                                rank.stream));
    }
    results[static_cast<size_t>(rank.rank)] = to.Read(rank.stream);
    EXPECT_EQ(again.Read(rank.stream), results[static_cast<size_t>(rank.rank)]);
  });
  for (const std::vector<float>& result : results)
    EXPECT_EQ(result, results[0]) << "seed " << kSeed;
}

TEST(Collectives, NothingToReduceWaitsForNobody) {
  WithRanks(2, [](Rank& rank) {
    if (rank.rank == 1) return;
    EXPECT_NCCL(ncclAllReduce(nullptr, nullptr, 0, ncclFloat, ncclSum, rank.comm, rank.stream));
    EXPECT_NCCL(ncclAllGather(nullptr, nullptr, 0, ncclFloat, rank.comm, rank.stream));
    EXPECT_NCCL(ncclBroadcast(nullptr, nullptr, 0, ncclFloat, 0, rank.comm, rank.stream));
    rank.Synchronize();
  });
}

// The group has a collective and messages between ranks. Rank 0 calls them in another order than
// the other ranks.
TEST(Collectives, OfOneGroupProgressTogetherWithMessages) {
  WithRanks(3, [](Rank& rank) {
    const Array<int> a(Values<int>(rank.rank, kCount)), b(Values<int>(rank.rank, kCount));
    const Array<int> passed(kCount, 0);
    const int next = (rank.rank + 1) % 3, before = (rank.rank + 2) % 3;
    EXPECT_NCCL(ncclGroupStart());
    if (rank.rank == 0) {
      EXPECT_NCCL(rank.Send(b, next));
    }
    EXPECT_NCCL(rank.Sum(a));
    EXPECT_NCCL(rank.Receive(passed, before));
    if (rank.rank != 0) {
      EXPECT_NCCL(rank.Send(b, next));
    }
    EXPECT_NCCL(ncclGroupEnd());
    ExpectReduced(a.Read(rank.stream), ncclSum, 3, 0);
    ExpectEqual(passed.Read(rank.stream), Values<int>(before, kCount));
  });
}

int Collect(Part& part) {
  Rank& rank = part.rank;
  ROLE_CHECK(ncclCommInitRank(&rank.comm, rank.ranks, part.id, rank.rank) == ncclSuccess);
  AllReduceOnce<float>(rank, ncclSum);
  AllReduceOnce<__half>(rank, ncclMax);
  ReduceScatterOnce<int64_t>(rank, ncclProd);
  ReduceOnce<__nv_bfloat16>(rank, ncclSum, 0);
  ROLE_CHECK(ncclCommDestroy(rank.comm) == ncclSuccess);
  return ::testing::Test::HasFailure() ? 1 : 0;
}
const NamedRole collect("collect", Collect);

TEST(Collectives, BetweenProcessesGiveWhatLoopsGive) {
  for (const int ranks : {1, 2, 4}) {
    EXPECT_EQ(RunRanks("collect", ranks), std::vector<int>(static_cast<size_t>(ranks), 0));
  }
}

}  // namespace
}  // namespace hostgpu::nccl::testing
