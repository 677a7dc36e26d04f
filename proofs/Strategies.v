(* Strategies by their rows and columns: what a release reads, and what an item enters. *)
From Coq Require Import ZArith List Bool.
Import ListNotations.
Open Scope Z_scope.

(* A row of B: nodes, each with the weight with which a release reads it. A column of C: the nodes
   which an item enters. Their product is how much of the item the release counts. *)
Definition read {Node : Type} (row : list (Z * Node)) (z : Node -> Z) : Z :=
  fold_right (fun wn s => fst wn * z (snd wn) + s) 0 row.
Definition entry {Node : Type} (same : forall m n : Node, {m = n} + {m <> n}) (column : list Node)
  (n : Node) : Z := Z.of_nat (count_occ same column n).

(* The numbers after a, up to b. *)
Definition between (a b : Z) : list Z :=
  map (fun j => a + Z.of_nat j) (seq 1 (Z.to_nat (b - a))).

(* k-ary trees. Node p of a level holds the items (p - 1) k^level + 1 .. p k^level. Digits lie from
   - below to k - 1 - below; with below = 0 nothing is subtracted. A release adds or subtracts nodes
   next to a multiple of k. What stands between two groups is read by nobody, and not entered. *)
Notation tree_node := (nat * Z)%type. (* level, number *)
Fixpoint tree_row (k below : Z) (level height : nat) (last : Z) : list (Z * tree_node) :=
  match height with
  | O => []
  | S height' =>
      let parent := (last + below) / k in
      map (fun p => (1, (level, p))) (between (k * parent) last) ++
      map (fun p => (-1, (level, p))) (between last (k * parent)) ++
      tree_row k below (S level) height' parent
  end.
Definition tree_column (k below : Z) (height : nat) (item : Z) : list tree_node :=
  filter (fun n => negb ((snd n + below) mod k =? 0))
    (map (fun level => (level, - (- item / k ^ Z.of_nat level))) (seq 0 height)).
(* The largest step of so many levels. *)
Fixpoint tree_horizon (k below : Z) (height : nat) : Z :=
  match height with O => 0 | S height' => k * tree_horizon k below height' + (k - 1 - below) end.

(* The binary mechanism: arity 2, left children only, numbered among themselves. *)
Definition left_child (n : tree_node) : tree_node := (fst n, snd n / 2).
Definition binary_row (height : nat) (step : Z) : list (Z * tree_node) :=
  map (fun wn => (fst wn, left_child (snd wn))) (tree_row 2 0 0 height step).
Definition binary_column (height : nat) (item : Z) : list tree_node :=
  map left_child (tree_column 2 0 height item).

(* The smooth binary mechanism. Leaves are words of bits with a given number of zeros, in order;
   item i has leaf i - 1, and the release at t reads leaf t. A node is a bit with the bits above it,
   the lowest first. A zero that only zeros follow is read by nobody, and not entered. *)
Fixpoint leaves (height zeros : nat) : list (list bool) :=
  match height with
  | O => match zeros with O => [[]] | S _ => [] end
  | S height' =>
      match zeros with O => [] | S zeros' => map (cons false) (leaves height' zeros') end ++
      map (cons true) (leaves height' zeros)
  end.
Fixpoint leaf_row (above leaf : list bool) : list (Z * list bool) :=
  match leaf with
  | [] => []
  | bit :: below => (if bit then [(1, above)] else []) ++ leaf_row (bit :: above) below
  end.
Fixpoint leaf_column (above leaf : list bool) : list (list bool) :=
  match leaf with
  | [] => []
  | bit :: below =>
      (if negb bit && existsb id below then [above] else []) ++ leaf_column (bit :: above) below
  end.
Definition smooth_row (height zeros step : nat) : list (Z * list bool) :=
  leaf_row [] (nth step (leaves height zeros) []).
Definition smooth_column (height zeros item : nat) : list (list bool) :=
  leaf_column [] (nth (item - 1) (leaves height zeros) []).

(* Range trees. A node of level 0 is a cell; a node of a level holds so many of the level below, by
   a list of radices; cells and nodes count from 0. A range low .. high - 1 reads the largest nodes
   of which it is made. *)
Fixpoint range_row (radices : list Z) (level : nat) (low high : Z) : list (Z * tree_node) :=
  let all := map (fun j => (1, (level, j))) (between (low - 1) (high - 1)) in
  match radices with
  | [] => all
  | k :: above =>
      let first := - (- low / k) in let last := high / k in
      if first <=? last then
        map (fun j => (1, (level, j))) (between (low - 1) (k * first - 1)) ++
        map (fun j => (1, (level, j))) (between (k * last - 1) (high - 1)) ++
        range_row above (S level) first last
      else all
  end.
Fixpoint range_column (radices : list Z) (level : nat) (cell : Z) : list tree_node :=
  (level, cell) ::
  match radices with [] => [] | k :: above => range_column above (S level) (cell / k) end.

(* Dyadic intervals: number j of a level is j 2^level .. (j + 1) 2^level - 1, j from 1 on. A release
   reads those that hold its step; an item enters the widest that begins at its step, then the
   widest that begins after that one, as far as the present step. *)
Fixpoint twos (p : positive) : nat := match p with xO q => S (twos q) | _ => O end.
Definition expiring_row (step : Z) : list (Z * tree_node) :=
  map (fun level => (1, (level, step / 2 ^ Z.of_nat level))) (seq 0 (S (Z.to_nat (Z.log2 step)))).
Fixpoint intervals_from (at_most : nat) (first now : Z) : list tree_node :=
  match at_most with
  | O => []
  | S rest =>
      if first <=? now then
        let level := twos (Z.to_pos first) in let width := 2 ^ Z.of_nat level in
        (level, first / width) :: intervals_from rest (first + width) now
      else []
  end.
Definition expiring_column (item now : Z) : list tree_node :=
  intervals_from (Z.to_nat now) item now.

Definition same_node (m n : tree_node) : {m = n} + {m <> n}.
Proof. decide equality; [apply Z.eq_dec | apply Nat.eq_dec]. Defined.
Definition same_bits : forall m n : list bool, {m = n} + {m <> n} := list_eq_dec bool_dec.

(* Nodes that items first, first + 1, ... enter, each as often as x says; all nodes of a stream. *)
Fixpoint entered {Node : Type} (same : forall m n : Node, {m = n} + {m <> n})
  (column : nat -> list Node) (first : nat) (x : list Z) (n : Node) : Z :=
  match x with
  | [] => 0
  | a :: x' => a * entry same (column first) n + entered same column (S first) x' n
  end.
Definition all_nodes {Node : Type} (same : forall m n : Node, {m = n} + {m <> n})
  (column : nat -> list Node) (T : nat) : list Node :=
  nodup same (concat (map column (seq 1 T))).
