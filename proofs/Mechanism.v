(* Noise that is moved brings about the same transcript in another world. This one lemma serves
   Laplace noise, moved once, and Gaussian noise, moved several times. *)
From Coq Require Import ZArith List Lia Reals Lra.
From Counton Require Import Definitions Vectors Sums Laws.
Import ListNotations.
Open Scope Z_scope.

Lemma firstn_S_nth (A : Type) (l : list A) d n : (n < length l)%nat ->
  firstn (S n) l = firstn n l ++ [nth n l d].
Proof.
  revert n. induction l; intros [|n] H; simpl in *; try lia; auto. f_equal. apply IHl. lia.
Qed.

Lemma releases_length exact noise z T : length (releases exact noise z T) = T.
Proof. induction T; simpl; auto. rewrite app_length, IHT. simpl. lia. Qed.

Lemma firstn_releases exact noise z T : forall t, (t <= T)%nat ->
  firstn t (releases exact noise z T) = releases exact noise z t.
Proof.
  induction T as [|T IH]; intros t Ht; simpl.
  - assert (t = 0)%nat as -> by lia. reflexivity.
  - destruct (Nat.eq_dec t (S T)) as [-> | Hne].
    + rewrite firstn_all2; auto. rewrite app_length, releases_length. simpl. lia.
    + rewrite firstn_app, releases_length. replace (t - T)%nat with 0%nat by lia.
      rewrite app_nil_r. apply IH. lia.
Qed.

Section Core.
  Variables N T : nat.
  Variables exact exact' : list Z -> Z.               (* of two worlds, before noise *)
  Variable noise : list Z -> list Z -> Z.
  Variable shift : list Z -> list Z.                  (* of noise, along a transcript *)
  Hypothesis shift_length : forall tau, length tau = T -> length (shift tau) = N.
  Hypothesis shifted : forall tau t z, length tau = T -> (t < T)%nat -> length z = N ->
    noise (firstn t tau) (add z (shift tau)) =
    noise (firstn t tau) z + (exact (firstn t tau) - exact' (firstn t tau)).

  (* World 0 is the first, world 1 the second; there is one for each whole number. *)
  Definition world (k : Z) (past : list Z) : Z := exact past + k * (exact' past - exact past).
  Definition released (k : Z) (z : list Z) : list Z := releases (world k) noise z T.

  Lemma shifted_up (n : nat) : forall tau t z, length tau = T -> (t < T)%nat -> length z = N ->
    noise (firstn t tau) (add z (times (Z.of_nat n) (shift tau))) =
    noise (firstn t tau) z + Z.of_nat n * (exact (firstn t tau) - exact' (firstn t tau)).
  Proof.
    induction n as [|n IH]; intros tau t z HL Ht Hz.
    - rewrite add_times_0 by (rewrite shift_length; auto). lia.
    - replace (times (Z.of_nat (S n)) (shift tau)) with
        (add (times (Z.of_nat n) (shift tau)) (shift tau)).
      + rewrite add_assoc, shifted, IH; auto; [lia|].
        rewrite add_length; auto. rewrite times_length, shift_length; auto.
      + rewrite <- (times_1 (shift tau)) at 2. rewrite add_times. f_equal. lia.
  Qed.

  Lemma shifted_by (k : Z) : forall tau t z, length tau = T -> (t < T)%nat -> length z = N ->
    noise (firstn t tau) (add z (times k (shift tau))) =
    noise (firstn t tau) z + k * (exact (firstn t tau) - exact' (firstn t tau)).
  Proof.
    intros tau t z HL Ht Hz. destruct (Z.le_gt_cases 0 k) as [Hk | Hk].
    - pose proof (shifted_up (Z.to_nat k) tau t z HL Ht Hz) as H.
      rewrite Z2Nat.id in H by lia. exact H.
    - set (y := add z (times k (shift tau))).
      assert (length y = N) as Hy.
      { unfold y. rewrite add_length; auto. rewrite times_length, shift_length; auto. }
      pose proof (shifted_up (Z.to_nat (- k)) tau t y HL Ht Hy) as H.
      rewrite Z2Nat.id in H by lia. unfold y in H at 1.
      rewrite add_times_back in H by (rewrite shift_length; auto). lia.
  Qed.

  (* The noise with which world j + k releases what world j releases. *)
  Definition moved (j k : Z) (z : list Z) : list Z := add z (times k (shift (released j z))).

  Lemma released_length k z : length (released k z) = T.
  Proof. apply releases_length. Qed.

  Lemma moved_length j k z : length z = N -> length (moved j k z) = N.
  Proof.
    intros H. unfold moved. rewrite add_length; auto.
    rewrite times_length, shift_length; auto. apply released_length.
  Qed.

  Lemma same_transcript j k z : length z = N -> released (j + k) (moved j k z) = released j z.
  Proof.
    intros Hz. unfold moved. set (tau := released j z).
    assert (forall t, (t <= T)%nat ->
      releases (world (j + k)) noise (add z (times k (shift tau))) t = releases (world j) noise z t) as H.
    { induction t as [|t IH]; intros Ht; simpl; auto.
      rewrite IH by lia. f_equal. f_equal.
      replace (releases (world j) noise z t) with (firstn t tau) by
        (apply firstn_releases; lia).
      rewrite shifted_by by (auto; apply released_length). unfold world. lia. }
    apply H. lia.
  Qed.

  Lemma moved_injective j k y z : length y = N -> length z = N -> moved j k y = moved j k z -> y = z.
  Proof.
    intros Hy Hz E. assert (released j y = released j z) as R.
    { rewrite <- (same_transcript j k y), <- (same_transcript j k z) by auto. now rewrite E. }
    unfold moved in E. rewrite R in E.
    apply add_injective in E; auto; rewrite times_length, shift_length; auto; apply released_length.
  Qed.

  (* Laplace noise: an event in which no transcript moves noise further than epsilon. *)
  Variable scales : list R.
  Hypothesis scales_positive : positive scales.

  Lemma private_from_to (j k : Z) (event : list Z -> Prop) (epsilon p p' : R) : Z.abs k = 1 ->
    (forall tau, length tau = T -> event tau -> (distance scales (shift tau) <= epsilon)%R) ->
    probability (laplace scales) N (released j) event p ->
    probability (laplace scales) N (released (j + k)) event p' ->
    (p <= exp epsilon * p')%R.
  Proof.
    intros Hk He [all [m [Ha [Hm ->]]]] [all' [m' [Ha' [Hm' ->]]]].
    rewrite <- (mass_unique _ _ _ _ Ha Ha'). clear all' Ha'.
    assert (0 < all)%R as Hp by (apply (all_positive _ N (laplace_positive scales) all Ha)).
    assert (m <= exp epsilon * m')%R as H.
    { apply (mass_moved _ _ _ (moved j k) _ _ _ Hm Hm').
      - left. apply exp_pos.
      - intros z [Hz E]. split; [now apply moved_length|]. now rewrite same_transcript.
      - intros y z [Hy _] [Hz _]. now apply moved_injective.
      - intros z [Hz E]. apply laplace_moved; auto.
        rewrite distance_times, Hk, Rmult_1_l. apply He; auto. apply released_length. }
    unfold Rdiv. rewrite <- Rmult_assoc. apply Rmult_le_compat_r; auto.
    left. now apply Rinv_0_lt_compat.
  Qed.
End Core.

Lemma releases_ext exact exact' noise z T : (forall past, exact past = exact' past) ->
  releases exact noise z T = releases exact' noise z T.
Proof. intros H. induction T; simpl; auto. now rewrite IHT, H. Qed.

Lemma probability_ext weight N f g event p : (forall z, f z = g z) ->
  probability weight N f event p -> probability weight N g event p.
Proof.
  intros H [all [m [Ha [[U L] ->]]]]. exists all, m. split; [exact Ha | split; [split | reflexivity]].
  - intros s [F [ND [HF ->]]]. apply U. exists F. repeat split; auto.
    + now apply (HF z).
    + rewrite H. now apply (HF z).
  - intros b Hb. apply L. intros s [F [ND [HF ->]]]. apply Hb. exists F. repeat split; auto.
    + now apply (HF z).
    + rewrite <- H. now apply (HF z).
Qed.

(* A stream is such a mechanism. *)
Section Streams.
  Variables (T N : nat) (C : list Z -> list Z) (noise : nat -> list Z -> Z) (answer : list Z -> Z).
  Variables input input' : list Z -> Z.
  Hypothesis answer_additive : additive answer.
  Hypothesis B_C_is_A : factorised T N C noise answer.

  Definition exact_of (i : list Z -> Z) (past : list Z) : Z := answer (along i (S (length past)) past).
  Definition noise_of (past : list Z) : list Z -> Z := noise (length past).
  Definition change (tau : list Z) : list Z := sub (along input T tau) (along input' T tau).

  Lemma along_length i T' tau : length (along i T' tau) = T'.
  Proof. unfold along. now rewrite map_length, seq_length. Qed.

  Lemma change_length tau : length (change tau) = T.
  Proof. unfold change. rewrite sub_length; rewrite !along_length; auto. Qed.

  Lemma firstn_seq_0 t : forall s T', (t <= T')%nat -> firstn t (seq s T') = seq s t.
  Proof. induction t; intros s [|T'] H; simpl; auto; try lia. f_equal. apply IHt. lia. Qed.

  Lemma along_firstn i t tau : (t < T)%nat -> length tau = T ->
    along i (S (length (firstn t tau))) (firstn t tau) = firstn (S t) (along i T tau).
  Proof.
    intros Ht HL. rewrite firstn_length, Nat.min_l by lia. unfold along.
    rewrite firstn_map, firstn_seq_0 by lia. apply map_ext_in. intros s Hs. apply in_seq in Hs.
    rewrite firstn_firstn. f_equal. f_equal. lia.
  Qed.

  Lemma stream_shifted : forall tau t z, length tau = T -> (t < T)%nat -> length z = N ->
    noise_of (firstn t tau) (add z (C (change tau))) =
    noise_of (firstn t tau) z + (exact_of input (firstn t tau) - exact_of input' (firstn t tau)).
  Proof.
    intros tau t z HL Ht Hz. unfold noise_of, exact_of.
    rewrite !along_firstn by auto. rewrite firstn_length, Nat.min_l by lia.
    destruct B_C_is_A as [_ B]. rewrite B by (auto; apply change_length). f_equal.
    unfold change. rewrite firstn_sub. apply additive_sub; auto.
    rewrite !firstn_length, !along_length. reflexivity.
  Qed.

  Lemma stream_shift_length : forall tau, length tau = T -> length (C (change tau)) = N.
  Proof. intros. destruct B_C_is_A as [L _]. apply L, change_length. Qed.

  Lemma world_0 z : stream T noise answer input z =
    released T (exact_of input) (exact_of input') noise_of 0 z.
  Proof. apply releases_ext. intros. unfold world, exact_of. lia. Qed.

  Lemma world_1 z : stream T noise answer input' z =
    released T (exact_of input) (exact_of input') noise_of (0 + 1) z.
  Proof. apply releases_ext. intros. unfold world, exact_of. lia. Qed.

  Lemma stream_private scales (epsilon : R) (event : list Z -> Prop) (p p' : R) :
    positive scales ->
    (forall tau, length tau = T -> event tau -> (distance scales (C (change tau)) <= epsilon)%R) ->
    probability (laplace scales) N (stream T noise answer input) event p ->
    probability (laplace scales) N (stream T noise answer input') event p' ->
    (p <= exp epsilon * p' /\ p' <= exp epsilon * p)%R.
  Proof.
    intros Hb He Hp Hp'.
    apply (probability_ext _ _ _ _ _ _ world_0) in Hp.
    apply (probability_ext _ _ _ _ _ _ world_1) in Hp'.
    split.
    - apply (private_from_to N T (exact_of input) (exact_of input') noise_of
        (fun tau => C (change tau)) stream_shift_length stream_shifted scales Hb 0 1 event); auto.
    - apply (private_from_to N T (exact_of input) (exact_of input') noise_of
        (fun tau => C (change tau)) stream_shift_length stream_shifted scales Hb (0 + 1) (-1) event);
        auto.
  Qed.
End Streams.
