// Graphs: which kernels an executable graph runs, and its launch node by node for a capture.
//
// An executable graph does not tell its nodes, so they are taken from the graph at instantiation.
// To capture a node, the graph is launched three times with other nodes switched on: those before
// it, it alone, those behind it. The order is one that the graph's edges allow, so the three are
// one launch to the program.
#pragma once

#include "launch.h"

typedef int (*graph_launch_function)(void* exec, void* stream);
typedef int (*graph_destroy_function)(void* graph);

// Launches the graph; node by node where one of its kernels is to be captured.
int graph_launch(const struct hip_table* table, void* exec, void* stream, enum hip_slot slot,
                 graph_launch_function original);

// A graph was instantiated; `exec` is NULL where that failed.
void graph_note(const struct hip_table* table, void* exec, void* graph);

// The executable graph was given other parameters than its graph has.
void graph_note_change(void* exec);

// It is destroyed.
void graph_forget(void* exec);

// Destroys the graph, or puts it off while its nodes are needed for a capture.
int graph_destroy(void* graph, graph_destroy_function original);

// Forgets all; what was put off is done now.
void graph_close(void);

// In a forked child: forgets all, touches nothing of the runtime.
void graph_drop(void);
