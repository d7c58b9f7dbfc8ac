// The input of a simulation: tasks that take time, fill resources, stand in queues and wait for
// each other. Plain values; thread-compatible. A resource is shared, a queue is an order, a
// dependency is a wait. They express:
//
//   device                a resource; its slots are how many kernels it can run at once
//   stream                a queue; it may hold kernels of a device and messages of links
//   event, join           a dependency; a task of no duration if many wait for many
//   link                  a resource with one slot for each direction, or one for both (AddLink)
//   latency of a message  a task on no resource, so that the next message may be sent (Send)
//   host thread           a queue of launches, each of which its kernel waits for (Launch)
//   captured graph        one launch that all of its kernels wait for
//   receiving in a stream a message that waits for the last task of the receiver's stream, and that
//                         the stream's next task waits for: it is in the queue of the sender
//   all-reduce            a message on each of its links, and a join behind them
#pragma once

#include <array>
#include <limits>
#include <string>
#include <vector>

namespace ucudnn::simulate {

// These are positions in the lists of a TaskGraph.
using TaskId = int;
using ResourceId = int;
using QueueId = int;
inline constexpr int kNone = -1;

enum class Activity { kComputation, kCommunication, kLaunch };
inline constexpr int kActivities = 3;

// Runs at most `slots` tasks at a time. Other tasks wait, and begin in the order in which they
// became ready; among tasks that become ready at the same moment the smallest id begins first.
// Tasks that a join makes ready are ready at the same moment as the join. If the shares of tasks
// add up to more than 1, each task is slower by a factor of this sum than alone.
struct Resource {
  std::string name;
  int slots = std::numeric_limits<int>::max();
};

struct Queue {
  std::string name;
};

// A task is ready once all tasks of `after` and the task before it in its queue have ended. Queues
// are in the order of ids.
struct Task {
  std::string name;             // for messages; may be empty
  double duration_ms = 0;       // its duration alone on its resource
  ResourceId resource = kNone;  // where it runs; kNone: it begins as soon as it is ready
  double share = 1;       // share of the resource, 0 to 1; counts in steps of 2^-32, rounded down
  QueueId queue = kNone;  // kNone: only `after` orders it
  std::vector<TaskId> after;  // any order; may name tasks that are added later
  Activity activity = Activity::kComputation;
};

// A queue whose tasks are launches, one after the other.
struct HostThread {
  QueueId queue = kNone;
  double launch_ms = 0;  // host time of one launch
};

// One direction of a link.
struct Link {
  ResourceId resource = kNone;
  double gb_per_s = 0;    // 10^9 bytes a second
  double latency_us = 0;  // from the last byte sent until the tasks that wait for the message begin
};

enum class Duplex { kHalf, kFull };

struct Message {
  std::string name;
  double bytes = 0;
  QueueId queue = kNone;  // its next task may begin once the bytes are sent
  std::vector<TaskId> after;
};

// Simulate() checks ids and values, not TaskGraph.
struct TaskGraph {
  std::vector<Resource> resources;
  std::vector<Queue> queues;
  std::vector<Task> tasks;

  ResourceId AddResource(std::string name, int slots = std::numeric_limits<int>::max());
  QueueId AddQueue(std::string name);
  TaskId Add(Task task);

  HostThread AddHostThread(std::string name, double launch_ms);
  // Adds the launch, and then the task, which waits for it. Returns the task.
  TaskId Launch(const HostThread& thread, Task task);

  // Returns the link for each direction. With half duplex both are the same resource, so that
  // messages of either direction wait for each other.
  std::array<Link, 2> AddLink(const std::string& name, double gb_per_s, double latency_us,
                              Duplex duplex);
  // Adds the message and, if the link has one, its latency. Returns the task for which the receiver
  // waits.
  TaskId Send(const Link& link, Message message);
};

}  // namespace ucudnn::simulate
