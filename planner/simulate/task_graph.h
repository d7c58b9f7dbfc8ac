// What is simulated: tasks that take time, fill resources, stand in queues and wait for each other.
// Plain values; thread-compatible.
//
// A resource is what is shared, a queue is an order, a dependency is a wait. They express:
//   device                a resource; its slots are how many kernels it can run at once
//   stream                a queue; it may hold kernels of a device and messages of links
//   event, join           a dependency; a task of no duration where many wait for many
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

// Positions in the lists of a TaskGraph.
using TaskId = int;
using ResourceId = int;
using QueueId = int;
inline constexpr int kNone = -1;

enum class Activity { kComputation, kCommunication, kLaunch };
inline constexpr int kActivities = 3;

// Runs at most `slots` tasks at a time. Others wait, and begin in the order in which they became
// ready; of tasks that become ready at the same moment the smallest id begins first. What a join
// makes ready is ready at the same moment as the join.
// Tasks whose shares add up to more than 1 share the resource: the sum is how much slower each of
// them is than alone.
struct Resource {
  std::string name;
  int slots = std::numeric_limits<int>::max();
};

struct Queue {
  std::string name;
};

// Is ready once all tasks of `after` and the task before it in its queue have ended. Queues are in
// the order of ids.
struct Task {
  std::string name;             // for messages; may be empty
  double duration_ms = 0;       // alone on its resource
  ResourceId resource = kNone;  // where it runs; on none it runs as soon as it is ready
  double share = 1;             // of the resource, 0 to 1; counts in steps of 2^-32, rounded down
  QueueId queue = kNone;        // kNone: in no order but that of `after`
  std::vector<TaskId> after;    // any order; may name tasks that are added later
  Activity activity = Activity::kComputation;
};

// A queue whose tasks are launches, one after the other.
struct HostThread {
  QueueId queue = kNone;
  double launch_ms = 0;  // the host's time for one launch
};

// One direction of a link.
struct Link {
  ResourceId resource = kNone;
  double gb_per_s = 0;    // 10^9 bytes a second
  double latency_us = 0;  // from the last byte sent until those that wait for the message go on
};

enum class Duplex { kHalf, kFull };

struct Message {
  std::string name;
  double bytes = 0;
  QueueId queue = kNone;  // goes on once the bytes are sent
  std::vector<TaskId> after;
};

// Ids and values are checked by Simulate, not here.
struct TaskGraph {
  std::vector<Resource> resources;
  std::vector<Queue> queues;
  std::vector<Task> tasks;

  ResourceId AddResource(std::string name, int slots = std::numeric_limits<int>::max());
  QueueId AddQueue(std::string name);
  TaskId Add(Task task);

  HostThread AddHostThread(std::string name, double launch_ms);
  // Adds the launch and then the task, which waits for it. Returns the task.
  TaskId Launch(const HostThread& thread, Task task);

  // There and back. Half duplex: both are the same resource, so messages of either direction wait
  // for each other.
  std::array<Link, 2> AddLink(const std::string& name, double gb_per_s, double latency_us,
                              Duplex duplex);
  // Adds the message and, where the link has one, its latency. Returns what its receiver waits for.
  TaskId Send(const Link& link, Message message);
};

}  // namespace ucudnn::simulate
