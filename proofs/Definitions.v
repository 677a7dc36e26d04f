(* The words in which the theorems of Statements.v are said.

   A vector is a list of integers. Noise is a vector with an entry for each node. A mechanism
   releases integers one after the other; what it has released so far, oldest first, is the past,
   and a transcript is the past after the last step. *)
From Coq Require Import ZArith List Bool Reals.
Import ListNotations.
Open Scope Z_scope.

Fixpoint add (u v : list Z) : list Z :=
  match u, v with
  | a :: u', b :: v' => a + b :: add u' v'
  | _, _ => []
  end.
Definition times (k : Z) (u : list Z) : list Z := map (Z.mul k) u.
Definition sub (u v : list Z) : list Z := add u (times (-1) v).
Definition sum (u : list Z) : Z := fold_right Z.add 0 u.

(* What is released in the first so many steps: each time something that hangs on the past, and
   noise. The same noise vector z serves all steps. *)
Fixpoint releases (exact : list Z -> Z) (noise : list Z -> list Z -> Z) (z : list Z) (steps : nat)
  : list Z :=
  match steps with
  | O => []
  | S before => let past := releases exact noise z before in past ++ [exact past + noise past z]
  end.

(* An adversary chooses the input of each step from the past. Along a transcript, or along a past,
   these are the inputs of the first so many steps. *)
Definition along (input : list Z -> Z) (steps : nat) (past : list Z) : list Z :=
  map (fun t => input (firstn t past)) (seq 0 steps).

(* A stream: after each step the answer to all inputs so far, and noise. *)
Definition stream (T : nat) (noise : nat -> list Z -> Z) (answer : list Z -> Z)
  (input : list Z -> Z) (z : list Z) : list Z :=
  releases (fun past => answer (along input (S (length past)) past))
    (fun past => noise (length past)) z T.

Definition additive (answer : list Z -> Z) : Prop :=
  forall xs ys, length xs = length ys -> answer (add xs ys) = answer xs + answer ys.

(* B C = A, rounding included: with noise moved by C x, of N nodes, each release moves by the
   answer to x. *)
Definition factorised (T N : nat) (C : list Z -> list Z) (noise : nat -> list Z -> Z)
  (answer : list Z -> Z) : Prop :=
  (forall xs, length xs = T -> length (C xs) = N) /\
  forall t z xs, (t < T)%nat -> length z = N -> length xs = T ->
    noise t (add z (C xs)) = noise t z + answer (firstn (S t) xs).

(* How far a vector moves noise: a sum over nodes of |u| / b, with a scale b for each node, or of
   u^2 / 2 v, with a variance v for each node. *)
Fixpoint distance (scales : list R) (u : list Z) : R :=
  match scales, u with
  | b :: scales', a :: u' => (IZR (Z.abs a) / b + distance scales' u')%R
  | _, _ => 0%R
  end.
Fixpoint energy (variances : list R) (u : list Z) : R :=
  match variances, u with
  | v :: variances', a :: u' => (IZR (a * a) / (2 * v) + energy variances' u')%R
  | _, _ => 0%R
  end.
Definition positive (widths : list R) : Prop := forall b, In b widths -> (0 < b)%R.

(* Discrete Laplace and discrete Gaussian noise, independent over nodes, up to one constant. *)
Definition laplace (scales : list R) (z : list Z) : R := exp (- distance scales z).
Definition gauss (variances : list R) (z : list Z) : R := exp (- energy variances z).

(* The weight of a set of vectors is the supremum over its finite subsets. *)
Definition total {A : Type} (weight : A -> R) (F : list A) : R :=
  fold_right (fun z s => (weight z + s)%R) 0%R F.
Definition mass (weight : list Z -> R) (set : list Z -> Prop) (m : R) : Prop :=
  is_lub (fun s => exists F, NoDup F /\ (forall z, In z F -> set z) /\ s = total weight F) m.

(* p is the probability that what a mechanism makes of noise of N nodes is in the event. *)
Definition probability (weight : list Z -> R) (N : nat) (mechanism : list Z -> list Z)
  (event : list Z -> Prop) (p : R) : Prop :=
  exists all m, mass weight (fun z => length z = N) all /\
    mass weight (fun z => length z = N /\ event (mechanism z)) m /\ p = (m / all)%R.

(* Several streams, each with steps, nodes, C, noise, answer and widths of its own: scales, or
   variances. The adversary says by the past which stream goes on, and with which input. *)
Record one_stream : Type := {
  steps : nat;
  widths : list R;
  C_of : list Z -> list Z;
  noise_in : nat -> list Z -> Z;
  answer_in : list Z -> Z
}.
Definition sound (s : one_stream) : Prop :=
  positive (widths s) /\ additive (answer_in s) /\
  factorised (steps s) (length (widths s)) (C_of s) (noise_in s) (answer_in s).
Definition no_stream : one_stream := {|
  steps := 0; widths := []; C_of := fun _ => []; noise_in := fun _ _ => 0;
  answer_in := fun _ => 0 |}.

(* In which rounds before one a stream went on, and its inputs in those. *)
Definition turns (which : list Z -> nat) (stream rounds : nat) (past : list Z) : list nat :=
  filter (fun t => (which (firstn t past) =? stream)%nat) (seq 0 rounds).
Definition inputs_of (which : list Z -> nat) (input : list Z -> Z) (stream rounds : nat)
  (past : list Z) : list Z :=
  map (fun t => input (firstn t past)) (turns which stream rounds past).
(* A stream's noise is a part of the noise of all. *)
Fixpoint part (streams : list one_stream) (number : nat) (z : list Z) : list Z :=
  match streams, number with
  | s :: _, O => firstn (length (widths s)) z
  | s :: others, S number' => part others number' (skipn (length (widths s)) z)
  | [], _ => []
  end.
Definition interleaved (streams : list one_stream) (which : list Z -> nat) (input : list Z -> Z)
  (rounds : nat) (z : list Z) : list Z :=
  releases
    (fun past => let s := which past in
      answer_in (nth s streams no_stream) (inputs_of which input s (S (length past)) past))
    (fun past z => let s := which past in
      noise_in (nth s streams no_stream) (length (turns which s (length past) past))
        (part streams s z)) z rounds.
(* How far a stream's noise is moved: what it was not asked counts as 0. *)
Definition filled (T : nat) (d : list Z) : list Z := firstn T (d ++ repeat 0 T).
Definition moved_in (streams : list one_stream) (which : list Z -> nat) (input input' : list Z -> Z)
  (rounds number : nat) (tau : list Z) : list Z :=
  let s := nth number streams no_stream in
  C_of s (filled (steps s)
    (sub (inputs_of which input number rounds tau) (inputs_of which input' number rounds tau))).

(* The same by the names of nodes: noise is a number for each node, which inputs x move by C x.
   What is computed of noise estimates a count if it moves by that count, in some unit: then it is
   a count plus noise, whatever the inputs. *)
Section Nodes.
  Context {Node Inputs : Type}.
  Variable C : Inputs -> Node -> Z.

  Definition estimates (f : (Node -> Z) -> Z) (unit : Z) (count : Inputs -> Z) : Prop :=
    forall z x, f (fun n => z n + C x n) = f z + unit * count x.
End Nodes.

(* A quotient to the nearest integer, halves up; and the floor of a real number. *)
Definition nearest (top bottom : Z) : Z := (2 * top + bottom) / (2 * bottom).
Definition floor (r : R) : Z := (up r - 1)%Z.

(* Estimates from below: a node's own measurement, of a weight, and what its children say. *)
Inductive tree (Node Inputs : Type) : Type :=
  | Leaf (said : (Node -> Z) -> Z) (count : Inputs -> Z)
  | Fork (own : (Node -> Z) -> Z) (weight : Z) (share : Z -> Z)
      (children : list (tree Node Inputs)).
Arguments Leaf {Node Inputs}.
Arguments Fork {Node Inputs}.

Fixpoint from_below {Node Inputs} (z : Node -> Z) (t : tree Node Inputs) : Z :=
  match t with
  | Leaf said _ => said z
  | Fork own weight share children =>
      let said := sum (map (from_below z) children) in said + share (own z - weight * said)
  end.
Fixpoint held {Node Inputs} (x : Inputs) (t : tree Node Inputs) : Z :=
  match t with
  | Leaf _ count => count x
  | Fork _ _ _ children => sum (map (held x) children)
  end.
Fixpoint measured {Node Inputs} (C : Inputs -> Node -> Z) (unit : Z) (t : tree Node Inputs)
  : Prop :=
  match t with
  | Leaf said count => estimates C said unit count
  | Fork own weight _ children =>
      estimates C own (unit * weight) (fun x => sum (map (held x) children)) /\
      fold_right and True (map (measured C unit) children)
  end.

(* Estimates passed down from above: what the children of a node lack of its final estimate is
   shared out among them, in any way. A release is what lies before a path, and at its end. *)
Inductive family (Node Inputs : Type) : Type :=
  Family (said : (Node -> Z) -> Z) (count : Inputs -> Z) (together : (Node -> Z) -> Z)
    (pass : nat -> Z -> Z) (children : list (family Node Inputs)).
Arguments Family {Node Inputs}.

Definition said {Node Inputs} (z : Node -> Z) (t : family Node Inputs) : Z :=
  match t with Family s _ _ _ _ => s z end.
Definition counted {Node Inputs} (x : Inputs) (t : family Node Inputs) : Z :=
  match t with Family _ c _ _ _ => c x end.
Fixpoint from_above {Node Inputs} (z : Node -> Z) (path : list nat) (final : Z)
  (t : family Node Inputs) : Z :=
  match path, t with
  | i :: rest, Family _ _ together pass children =>
      let lack := final - together z in
      let finals := map (fun jc => said z (snd jc) + pass (fst jc) lack)
        (combine (seq 0 (length children)) children) in
      match nth_error children i with
      | Some child => sum (firstn i finals) + from_above z rest (nth i finals 0) child
      | None => final
      end
  | [], _ => final
  end.
Fixpoint up_to {Node Inputs} (x : Inputs) (path : list nat) (t : family Node Inputs) : Z :=
  match path, t with
  | i :: rest, Family _ count _ _ children =>
      match nth_error children i with
      | Some child => sum (map (counted x) (firstn i children)) + up_to x rest child
      | None => count x
      end
  | [], Family _ count _ _ _ => count x
  end.
Fixpoint agreed {Node Inputs} (C : Inputs -> Node -> Z) (unit : Z) (t : family Node Inputs)
  : Prop :=
  match t with
  | Family said count together _ children =>
      estimates C said unit count /\ estimates C together unit count /\
      fold_right and True (map (agreed C unit) children)
  end.

(* C by its columns, a vector for each step. Inputs that differ by d move measurements by a sum of
   columns, each as often as d says. *)
Definition absolute (d : list Z) : Z := fold_right (fun a s => Z.abs a + s) 0 d.
Fixpoint combination (N : nat) (columns : list (list Z)) (d : list Z) : list Z :=
  match columns, d with
  | c :: columns', a :: d' => add (times a c) (combination N columns' d')
  | _, _ => repeat 0 N
  end.
Fixpoint weighted (moves : list Z -> R) (columns : list (list Z)) (d : list Z) : R :=
  match columns, d with
  | c :: columns', a :: d' => (IZR (Z.abs a) * moves c + weighted moves columns' d')%R
  | _, _ => 0%R
  end.

(* Rows are pairs of a user and a step, in the order in which they come. Of each user so many are
   kept, and of a user so many in a step: the first ones. Then they are counted by step. *)
Definition same_user (r q : nat * nat) : bool := (fst r =? fst q)%nat.
Definition same_row (r q : nat * nat) : bool := same_user r q && (snd r =? snd q)%nat.
Definition other_than (user : nat) (r : nat * nat) : bool := negb (fst r =? user)%nat.
Definition how_many (which : nat * nat -> bool) (rows : list (nat * nat)) : nat :=
  length (filter which rows).
Fixpoint kept (most most_a_step : nat) (before rows : list (nat * nat)) : list (nat * nat) :=
  match rows with
  | [] => []
  | r :: rest =>
      if ((how_many (same_user r) before <? most)
        && (how_many (same_row r) before <? most_a_step))%nat
      then r :: kept most most_a_step (r :: before) rest
      else kept most most_a_step before rest
  end.
Definition counts (T : nat) (rows : list (nat * nat)) : list Z :=
  map (fun step => Z.of_nat (how_many (fun r => (snd r =? step)%nat) rows)) (seq 0 T).

(* Noise by the names of nodes, as a vector in the order of a list of nodes; 0 elsewhere. *)
Fixpoint by_name {Node : Type} (same : forall m n : Node, {m = n} + {m <> n}) (nodes : list Node)
  (z : list Z) (n : Node) : Z :=
  match nodes, z with
  | m :: nodes', a :: z' => if same m n then a else by_name same nodes' z' n
  | _, _ => 0
  end.

(* Inputs that differ in one step alone, by s; steps counted from 0. *)
Definition in_one_step (T j : nat) (s : Z) : list Z :=
  map (fun t => if (t =? j)%nat then s else 0) (seq 0 T).
