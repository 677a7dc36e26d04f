(* From the names of nodes to vectors, and strategies by rows and columns of nodes. *)
From Coq Require Import ZArith List Bool Lia Reals Lra FunctionalExtensionality.
From Counton Require Import Definitions Vectors Sums Laws Mechanism Renyi Units Strategies Trees.
Import ListNotations.
Open Scope Z_scope.

Section Names.
  Context {Node : Type}.
  Variable same : forall m n : Node, {m = n} + {m <> n}.
  Notation by_name := (by_name same).

  Lemma by_name_add nodes : forall z (f : Node -> Z) n, length z = length nodes ->
    by_name nodes (add z (map f nodes)) n =
    by_name nodes z n + (if in_dec same n nodes then f n else 0).
  Proof.
    induction nodes as [|m nodes IH]; intros [|a z] f n H; try discriminate; [reflexivity|].
    injection H as H. cbn [map]. rewrite add_cons. cbn [Definitions.by_name].
    rewrite IH by auto.
    destruct (same m n) as [E | E].
    - subst m. destruct (in_dec same n (n :: nodes)) as [_ | X]; [reflexivity|].
      exfalso. apply X. now left.
    - destruct (in_dec same n nodes) as [I | I], (in_dec same n (m :: nodes)) as [I' | I']; auto.
      + exfalso. apply I'. now right.
      + destruct I' as [I' | I']; contradiction.
  Qed.

  (* Estimates by the names of nodes are a mechanism. *)
  Lemma names_factorised T (nodes : list Node) (C : list Z -> Node -> Z)
    (noise : nat -> (Node -> Z) -> Z) (answer : list Z -> Z) :
    (forall xs n, length xs = T -> ~ In n nodes -> C xs n = 0) ->
    (forall t z xs, (t < T)%nat -> length xs = T ->
      noise t (fun n => z n + C xs n) = noise t z + answer (firstn (S t) xs)) ->
    factorised T (length nodes) (fun xs => map (C xs) nodes)
      (fun t z => noise t (by_name nodes z)) answer.
  Proof.
    intros H0 H. split; [intros; apply map_length|].
    intros t z xs Ht Hz HL. rewrite <- H by auto. f_equal.
    apply functional_extensionality. intros n. rewrite by_name_add by auto.
    destruct (in_dec same n nodes); auto. rewrite H0; auto.
  Qed.

  Section Strategy.
    Variables (T : nat) (row : nat -> list (Z * Node)) (column : nat -> list Node).
    Hypothesis product : forall item step, (1 <= item <= T)%nat -> (1 <= step <= T)%nat ->
      read (row step) (entry same (column item)) = if (item <=? step)%nat then 1 else 0.

    Lemma read_entered step x : forall first, (1 <= first)%nat -> (first + length x <= S T)%nat ->
      (1 <= step <= T)%nat ->
      read (row step) (entered same column first x) = sum (firstn (S step - first) x).
    Proof.
      induction x as [|a x IH]; intros first Hf Hl Hs; cbn [entered length] in *.
      - rewrite firstn_nil. unfold read. induction (row step) as [|wn r IH]; [reflexivity|].
        cbn [fold_right]. rewrite IH. unfold sum. simpl. lia.
      - rewrite read_plus, read_times, IH, product by lia.
        destruct (Nat.leb_spec first step).
        + replace (S step - first)%nat with (S (S step - S first)) by lia.
          cbn [firstn]. unfold sum at 2. cbn [fold_right]. fold (sum (firstn (S step - S first) x)). lia.
        + replace (S step - S first)%nat with 0%nat by lia. replace (S step - first)%nat with 0%nat by lia.
          cbn [firstn]. unfold sum. simpl. lia.
    Qed.

    Lemma entered_outside x n : forall first, (1 <= first)%nat -> (first + length x <= S T)%nat ->
      ~ In n (all_nodes same column T) -> entered same column first x n = 0.
    Proof.
      induction x as [|a x IH]; intros first Hf Hl Hn; cbn [entered length] in *; auto.
      rewrite IH by (auto; lia). rewrite entry_0; [lia|].
      intros Hin. apply Hn. apply nodup_In. apply in_concat. exists (column first). split; auto.
      apply in_map. apply in_seq. lia.
    Qed.

    Lemma strategy_factorised :
      factorised T (length (all_nodes same column T))
        (fun xs => map (entered same column 1 xs) (all_nodes same column T))
        (fun t z => read (row (S t)) (by_name (all_nodes same column T) z)) sum.
    Proof.
      apply (names_factorised T (all_nodes same column T) (entered same column 1)
        (fun t z => read (row (S t)) z) sum).
      - intros xs n HL Hn. apply entered_outside; auto. lia.
      - intros t z xs Ht HL. rewrite read_plus, read_entered by lia.
        now replace (S (S t) - 1)%nat with (S t) by lia.
    Qed.

    Lemma entries_at_most nodes c : NoDup nodes ->
      absolute (map (entry same c) nodes) <= Z.of_nat (length c).
    Proof.
      intros ND. induction c as [|m c IH].
      - clear. induction nodes as [|n nodes IH]; [reflexivity|]. cbn [map]. rewrite absolute_cons.
        change (entry same [] n) with 0. lia.
      - assert (forall A, absolute (map (entry same (m :: c)) A) =
          absolute (map (entry same c) A) + Z.of_nat (count_occ same A m)) as E.
        { induction A as [|n A IHA]; [reflexivity|]. cbn [map count_occ]. rewrite !absolute_cons, IHA.
          unfold entry. cbn [count_occ]. destruct (same m n), (same n m); try congruence; lia. }
        rewrite E. rewrite (NoDup_count_occ same) in ND. specialize (ND m). cbn [length]. lia.
    Qed.

    (* How many nodes items enter, each as often as x says. *)
    Fixpoint nodes_moved (first : nat) (x : list Z) : Z :=
      match x with
      | [] => 0
      | a :: x' => Z.abs a * Z.of_nat (length (column first)) + nodes_moved (S first) x'
      end.

    Lemma entered_at_most nodes x : NoDup nodes -> forall first,
      absolute (map (entered same column first x) nodes) <= nodes_moved first x.
    Proof.
      intros ND. induction x as [|a x IH]; intros first.
      - clear. cbn [nodes_moved]. induction nodes as [|n nodes IH]; [reflexivity|].
        cbn [map]. rewrite absolute_cons. change (entered same column first [] n) with 0. lia.
      - specialize (IH (S first)). cbn [nodes_moved].
        assert (absolute (map (entered same column first (a :: x)) nodes) <=
          Z.abs a * absolute (map (entry same (column first)) nodes) +
          absolute (map (entered same column (S first) x) nodes)) as B.
        { clear. induction nodes as [|n nodes IH]; [unfold absolute; simpl; lia|].
          cbn [map]. rewrite !absolute_cons.
          change (entered same column first (a :: x) n) with
            (a * entry same (column first) n + entered same column (S first) x n).
          assert (0 <= entry same (column first) n) by (unfold entry; lia). nia. }
        pose proof (entries_at_most nodes (column first) ND) as E. nia.
    Qed.

    Lemma nodes_moved_at_most D x : forall first, (1 <= first)%nat -> (first + length x <= S T)%nat ->
      (forall item, (1 <= item <= T)%nat -> (length (column item) <= D)%nat) ->
      nodes_moved first x <= absolute x * Z.of_nat D.
    Proof.
      induction x as [|a x IH]; intros first Hf Hl HD; cbn [length nodes_moved] in *.
      - unfold absolute. simpl. lia.
      - specialize (IH (S first) ltac:(lia) ltac:(lia) HD). specialize (HD first ltac:(lia)).
        rewrite absolute_cons. nia.
    Qed.

    Lemma nodes_moved_in_one_step s j : forall n first from, (from <= j < from + n)%nat ->
      nodes_moved first (map (fun t => if (t =? j)%nat then s else 0) (seq from n)) =
      Z.abs s * Z.of_nat (length (column (first + (j - from)))).
    Proof.
      assert (forall n first from, (j < from)%nat ->
        nodes_moved first (map (fun t => if (t =? j)%nat then s else 0) (seq from n)) = 0) as H0.
      { induction n as [|n IH]; intros first from Hj; [reflexivity|]. cbn [seq map nodes_moved].
        rewrite IH by lia. destruct (Nat.eqb_spec from j); lia. }
      induction n as [|n IH]; intros first from Hj; [lia|]. cbn [seq map nodes_moved].
      destruct (Nat.eqb_spec from j) as [-> | Hne].
      - rewrite H0 by lia. rewrite Nat.sub_diag, Nat.add_0_r. lia.
      - rewrite IH by lia. replace (first + (j - from))%nat with (S first + (j - S from))%nat by lia. lia.
    Qed.
  End Strategy.
End Names.

Lemma distance_same_scale b u : forall N, length u = N ->
  distance (repeat b N) u = (IZR (absolute u) / b)%R.
Proof.
  induction u as [|a u IH]; intros [|N] H; try discriminate; cbn [repeat distance].
  - unfold absolute, Rdiv. simpl. ring.
  - injection H as H. rewrite IH by auto. rewrite absolute_cons, plus_IZR. unfold Rdiv. ring.
Qed.

Lemma strategy_private {Node : Type} (same : forall m n : Node, {m = n} + {m <> n}) (T D : nat)
  (row : nat -> list (Z * Node)) (column : nat -> list Node) (input input' : list Z -> Z)
  (m : Z) (b epsilon : R) (event : list Z -> Prop) (p p' : R) :
  (forall item step, (1 <= item <= T)%nat -> (1 <= step <= T)%nat ->
    read (row step) (entry same (column item)) = if (item <=? step)%nat then 1 else 0) ->
  (forall item, (1 <= item <= T)%nat -> (length (column item) <= D)%nat) ->
  (forall tau, length tau = T -> absolute (sub (along input T tau) (along input' T tau)) <= m) ->
  (0 < b)%R -> (IZR (m * Z.of_nat D) <= epsilon * b)%R ->
  let nodes := all_nodes same column T in
  let noise := fun t z => read (row (S t)) (by_name same nodes z) in
  probability (laplace (repeat b (length nodes))) (length nodes) (stream T noise sum input) event p ->
  probability (laplace (repeat b (length nodes))) (length nodes) (stream T noise sum input') event p' ->
  (p <= exp epsilon * p' /\ p' <= exp epsilon * p)%R.
Proof.
  intros HP HD Hm Hb He nodes noise Hp Hp'.
  apply (stream_private T (length nodes) (fun xs => map (entered same column 1 xs) nodes) noise sum
    input input' sum_additive (strategy_factorised same T row column HP)
    (repeat b (length nodes)) epsilon event p p'); auto.
  - intros c Hc. now apply repeat_spec in Hc as ->.
  - intros tau HL _. rewrite distance_same_scale by apply map_length.
    set (d := change T input input' tau).
    assert (length d = T) as Hd by apply change_length.
    pose proof (entered_at_most same column nodes d (NoDup_nodup _ _) 1) as B.
    pose proof (nodes_moved_at_most T column D d 1 (le_n 1) ltac:(lia) HD) as B'.
    specialize (Hm tau HL). change (sub (along input T tau) (along input' T tau)) with d in Hm.
    apply Rmult_le_reg_r with b; auto. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra.
    rewrite Rmult_1_r. eapply Rle_trans; [|exact He]. apply IZR_le. nia.
Qed.

(* The same with Gaussian noise of one variance, where no item enters a node twice. *)
Lemma energy_same_variance v u m : 0 <= m -> (0 < v)%R -> (forall a, In a u -> Z.abs a <= m) ->
  forall N, length u = N -> (energy (repeat v N) u <= IZR (m * absolute u) / (2 * v))%R.
Proof.
  intros Hm Hv. induction u as [|a u IH]; intros Hu [|N] H; try discriminate; cbn [repeat energy].
  - unfold absolute. simpl. rewrite Z.mul_0_r. unfold Rdiv. lra.
  - injection H as H. specialize (IH (fun b h => Hu b (or_intror h)) N H).
    pose proof (Hu a (or_introl eq_refl)) as Ha. rewrite absolute_cons.
    assert (0 < / (2 * v))%R as Hi by (apply Rinv_0_lt_compat; lra).
    apply Rle_trans with (IZR (m * Z.abs a) / (2 * v) + IZR (m * absolute u) / (2 * v))%R.
    + apply Rplus_le_compat; auto. apply Rmult_le_compat_r; [lra|]. apply IZR_le. nia.
    + right. rewrite Z.mul_add_distr_l, plus_IZR. unfold Rdiv. ring.
Qed.

Lemma entered_bounded {Node : Type} (same : forall m n : Node, {m = n} + {m <> n}) T column x n :
  (forall item, (1 <= item <= T)%nat -> NoDup (column item)) -> forall first,
  (1 <= first)%nat -> (first + length x <= S T)%nat ->
  Z.abs (entered same column first x n) <= absolute x.
Proof.
  intros ND. induction x as [|a x IH]; intros first Hf Hl; cbn [entered length] in *; [reflexivity|].
  specialize (IH (S first) ltac:(lia) ltac:(lia)). rewrite absolute_cons.
  pose proof (ND first ltac:(lia)) as N1. rewrite (NoDup_count_occ same) in N1. specialize (N1 n).
  assert (0 <= entry same (column first) n <= 1) by (unfold entry; lia). nia.
Qed.

Lemma strategy_keeps_rho {Node : Type} (same : forall m n : Node, {m = n} + {m <> n}) (T D : nat)
  (row : nat -> list (Z * Node)) (column : nat -> list Node) (input input' : list Z -> Z)
  (m : Z) (v rho : R) (p q : list Z -> R) (n : nat) (taus : list (list Z)) :
  (forall item step, (1 <= item <= T)%nat -> (1 <= step <= T)%nat ->
    read (row step) (entry same (column item)) = if (item <=? step)%nat then 1 else 0) ->
  (forall item, (1 <= item <= T)%nat -> NoDup (column item) /\ (length (column item) <= D)%nat) ->
  (forall tau, length tau = T -> absolute (sub (along input T tau) (along input' T tau)) <= m) ->
  (0 < v)%R -> (IZR (m * m * Z.of_nat D) <= rho * (2 * v))%R ->
  let nodes := all_nodes same column T in
  let noise := fun t z => read (row (S t)) (by_name same nodes z) in
  let law := gauss (repeat v (length nodes)) in
  (forall tau, probability law (length nodes) (stream T noise sum input)
    (fun released => released = tau) (p tau)) ->
  (forall tau, probability law (length nodes) (stream T noise sum input')
    (fun released => released = tau) (q tau)) ->
  NoDup taus ->
  (total (fun tau => p tau ^ S n / q tau ^ n) taus <= exp (INR (S n) * INR n * rho) /\
   total (fun tau => q tau ^ S n / p tau ^ n) taus <= exp (INR (S n) * INR n * rho))%R.
Proof.
  intros HP HD Hm Hv Hr nodes noise law Hp Hq ND.
  apply (stream_renyi T (length nodes) (fun xs => map (entered same column 1 xs) nodes) noise sum
    input input' sum_additive (strategy_factorised same T row column HP)
    (repeat v (length nodes))); auto.
  - intros c Hc. now apply repeat_spec in Hc as ->.
  - intros tau HL. set (d := change T input input' tau).
    assert (length d = T) as Hd by apply change_length.
    specialize (Hm tau HL). change (sub (along input T tau) (along input' T tau)) with d in Hm.
    pose proof (absolute_nonneg d) as H0.
    pose proof (entered_at_most same column nodes d (NoDup_nodup _ _) 1) as B.
    pose proof (nodes_moved_at_most T column D d 1 (le_n 1) ltac:(lia)
      (fun item h => proj2 (HD item h))) as B'.
    eapply Rle_trans.
    + apply (energy_same_variance v _ m); auto; [lia | | apply map_length].
      intros a Ha. apply in_map_iff in Ha as [node [<- _]].
      eapply Z.le_trans; [|exact Hm].
      apply (entered_bounded same T); [intros item h; now apply HD | lia | lia].
    + apply Rmult_le_reg_r with (2 * v)%R; [lra|]. unfold Rdiv.
      rewrite Rmult_assoc, Rinv_l by lra. rewrite Rmult_1_r. eapply Rle_trans; [|exact Hr].
      apply IZR_le. rewrite <- Z.mul_assoc. apply Z.mul_le_mono_nonneg_l; [lia|].
      eapply Z.le_trans; [exact B|]. eapply Z.le_trans; [exact B'|].
      apply Z.mul_le_mono_nonneg_r; lia.
Qed.
