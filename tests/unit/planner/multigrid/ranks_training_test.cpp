// Tests training on several ranks and with several replicas.
#include <gtest/gtest.h>

#include <mutex>
#include <numeric>
#include <random>

#include "planner/multigrid/distributed/some_peers.h"
#include "planner/multigrid/distributed/thread_ranks.h"
#include "planner/multigrid/host/training.h"
#include "tests/support/must.h"
#include "unit/planner/multigrid/digit_net.h"
#include "unit/planner/multigrid/plain_chain.h"

namespace ucudnn::multigrid {
namespace {

constexpr int kBatch = 2;
constexpr int kClasses = 5;

Examples DrawnExamples(int count) {
  return DigitExamples({.extent = 6, .classes = kClasses}, count, 8);
}

TrainingSettings Settings() {
  TrainingSettings settings;
  settings.network.batch = kBatch;
  settings.network.step = 0.1;
  settings.network.coarsening = {2};
  settings.checked_every = 2;
  return settings;
}

struct Trained {
  std::vector<double> parameters;
  std::vector<double> numbers;  // losses, top-1 shares, cycles, solves and checks of each epoch

  bool operator==(const Trained&) const = default;
};

// Trains `replicas` replicas for two epochs, each on `ranks` threads.
Result<Trained> TrainOn(int ranks, int replicas, const WeightedChain& net,
                        const TrainingSettings& settings, const Examples& examples) {
  ThreadRanks job(ranks * replicas);
  std::vector<Parameters> trained(replicas, ZerosLike(net.parameters));  // by replica
  Trained result;
  std::mutex mutex;
  const Status status = RunOnThreads(job, ranks * replicas, [&](Peers& peers) -> Status {
    ReplicaPeers of_replica(peers, replicas);
    TrainingSettings own = settings;
    own.network.peers = &of_replica.network;
    if (replicas > 1) own.network.replicas = &of_replica.same_layers;
    UCUDNN_ASSIGN_OR_RETURN(const Placement placement, PlaceNetwork(net.chain, own.network, ranks));
    const int rank = of_replica.network.rank();
    UCUDNN_ASSIGN_OR_RETURN(
        const auto trainer,
        Trainer::Make(net.chain, ParametersOf(rank, placement, net.parameters), own));
    std::vector<double> numbers;
    for (int epoch = 0; epoch < 2; ++epoch) {
      UCUDNN_ASSIGN_OR_RETURN(const EpochResult one, trainer->RunEpoch(examples, [](int) {}));
      UCUDNN_ASSIGN_OR_RETURN(const double top1, trainer->Evaluate(examples));
      numbers.insert(numbers.end(), {one.loss, top1, double(one.cycles), double(one.solves)});
      for (const CheckedStep& check : one.checks) {
        numbers.insert(numbers.end(), {check.output_error, check.gradient_error});
      }
    }
    UCUDNN_ASSIGN_OR_RETURN(const Parameters* const own_parameters, trainer->ReadParameters());
    const std::lock_guard lock(mutex);
    if (peers.rank() == 0) result.numbers = numbers;
    // All ranks must report the same loss.
    if (result.numbers.size() == numbers.size() && result.numbers[0] != numbers[0]) {
      return Status::Error("ranks differ in the loss");
    }
    Parameters& of_all = trained[of_replica.same_layers.rank()];
    for (size_t id = 0; id < of_all.size(); ++id) {
      if (placement.owners[id] == rank) of_all[id] = (*own_parameters)[id];
    }
    return Status::Ok();
  });
  UCUDNN_RETURN_IF_ERROR(status);
  result.parameters = Flat(trained.front());
  for (const Parameters& other : trained) {
    if (Flat(other) != result.parameters) return Status::Error("replicas differ");
  }
  return result;
}

TEST(TrainingOnRanks, TrainsTheSameParametersOnAnyNumberOfRanks) {
  const WeightedChain net = DrawnStages();
  const Examples examples = DrawnExamples(9);
  TrainingSettings settings = Settings();
  for (const CoarseOperator coarse : {CoarseOperator::kInject, CoarseOperator::kSum}) {
    SCOPED_TRACE(NameOf(coarse));
    settings.network.coarse = coarse;
    settings.network.distributed = std::nullopt;
    const Trained alone = test::Must(TrainOn(1, 1, net, settings, examples));
    EXPECT_NE(alone.parameters, Flat(net.parameters));
    for (const int ranks : {2, 3, 5}) {
      // With 3 ranks, coarse levels are on one rank, which receives the weights after each step.
      // Otherwise they are distributed.
      settings.network.distributed = ranks == 3 ? std::optional(1) : std::nullopt;
      EXPECT_TRUE(test::Must(TrainOn(ranks, 1, net, settings, examples)) == alone) << ranks;
    }
  }
}

TEST(TrainingOnRanks, StartsFromTheStatesOfTheStepBeforeOnAnyNumberOfRanks) {
  const WeightedChain net = DrawnStages();
  const Examples examples = DrawnExamples(9);
  for (const Storage storage : {Storage::kAll, Storage::kCPoints}) {
    for (const bool skips_first_down : {false, true}) {
      TrainingSettings settings = Settings();
      settings.network.storage = storage;
      settings.repeats = 3;
      settings.learning_rate = 0.001;
      for (SolveOptions* const way : {&settings.network.forward, &settings.network.backward}) {
        way->cycles = 1;
        way->skips_first_down = skips_first_down;
      }
      const Result<Trained> broadcast = TrainOn(1, 1, net, settings, examples);
      settings.network.forward.start = settings.network.backward.start = Start::kPrevious;
      const Trained alone = test::Must(TrainOn(1, 1, net, settings, examples));
      EXPECT_NE(alone.parameters, broadcast->parameters);
      for (const int ranks : {2, 5}) {
        EXPECT_TRUE(test::Must(TrainOn(ranks, 1, net, settings, examples)) == alone)
            << ranks << " ranks";
      }
    }
  }
}

// Trains one network as `replicas` replicas would train. In each step, computes the gradients of
// the replicas' mini-batches one after the other, and sums them in that order.
std::vector<double> TrainedInTurn(const WeightedChain& net, const TrainingSettings& settings,
                                  const Examples& examples, int replicas) {
  Parameters parameters = net.parameters;
  Parameters velocity = ZerosLike(parameters);
  const auto network = std::move(*NetworkSolver::Make(net.chain, parameters, settings.network));
  std::mt19937_64 random(settings.seed);
  const int64_t features = network->input_size();
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::vector<int> order(examples.count());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    for (int next = 0; next + replicas * kBatch <= examples.count();) {
      std::vector<double> sum;
      for (int replica = 0; replica < replicas; ++replica) {
        std::vector<double> images;
        std::vector<int> labels;
        for (int i = 0; i < kBatch; ++i, ++next) {
          const auto image = examples.images.begin() + order[next] * features;
          images.insert(images.end(), image, image + features);
          labels.push_back(examples.labels[order[next]]);
        }
        const double* const logits = *network->Forward(images.data());
        std::vector<double> logits_gradient(kBatch * kClasses);
        CrossEntropy(logits, labels, kClasses, logits_gradient.data());
        Parameters gradient = ZerosLike(parameters);
        EXPECT_TRUE(network->Backward(logits_gradient.data(), gradient).ok());
        network->ForgetStates();
        const std::vector<double> one = Flat(gradient);
        if (replica == 0) sum.assign(one.size(), 0.0);
        for (size_t i = 0; i < one.size(); ++i) sum[i] = replica == 0 ? one[i] : sum[i] + one[i];
      }
      auto number = sum.begin();
      const auto descend = [&](std::vector<double>& numbers, std::vector<double>& velocities) {
        for (size_t i = 0; i < numbers.size(); ++i) {
          velocities[i] = settings.momentum * velocities[i] + *number++ / replicas;
          numbers[i] -= settings.learning_rate * velocities[i];
        }
      };
      for (size_t id = 0; id < parameters.size(); ++id) {
        descend(parameters[id].weights, velocity[id].weights);
        descend(parameters[id].bias, velocity[id].bias);
      }
    }
  }
  return Flat(parameters);
}

TEST(TrainingOnRanks, ReplicasSumTheirGradientsInOrder) {
  const WeightedChain net = DrawnStages();
  const Examples examples = DrawnExamples(13);
  for (const auto& [ranks, replicas] : {std::pair(1, 2), {1, 3}, {2, 2}, {3, 3}}) {
    const Trained together = test::Must(TrainOn(ranks, replicas, net, Settings(), examples));
    EXPECT_EQ(together.parameters, TrainedInTurn(net, Settings(), examples, replicas))
        << ranks << " ranks, " << replicas << " replicas";
  }
}

// Two replicas, and one network with a mini-batch of twice the size, compute the same gradient,
// except for the order of sums. The sum for a weight has a term for each image and each of at most
// 36 places. A term is a product over at most 31 layers, and is rounded at each layer.
TEST(TrainingOnRanks, ReplicasTrainAsOneMiniBatchDoes) {
  const WeightedChain net = DrawnStages();
  const Examples examples = DrawnExamples(12);
  TrainingSettings settings = Settings();
  settings.network.levels = 1;
  const Trained apart = test::Must(TrainOn(2, 2, net, settings, examples));
  settings.network.batch = 2 * kBatch;
  const Trained together = test::Must(TrainOn(1, 1, net, settings, examples));
  constexpr double kRoundings = 36 * 4 * 31 * 6;  // places, images, layers and steps
  constexpr double kTolerance = kRoundings * 1.1e-16;
  EXPECT_LT(RelativeError(apart.parameters, together.parameters), kTolerance);
  EXPECT_NEAR(apart.numbers[0], together.numbers[0], kTolerance);
}

}  // namespace
}  // namespace ucudnn::multigrid
