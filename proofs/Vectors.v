(* Vectors of integers: sums, differences and multiples. *)
From Coq Require Import ZArith List Lia.
From Counton Require Import Definitions.
Import ListNotations.
Open Scope Z_scope.

Lemma add_length u : forall v, length u = length v -> length (add u v) = length u.
Proof. induction u as [|a u IH]; intros [|b v] H; simpl in *; auto; discriminate || (f_equal; auto). Qed.

Lemma times_length k u : length (times k u) = length u.
Proof. apply map_length. Qed.

Lemma sub_length u v : length u = length v -> length (sub u v) = length u.
Proof. intros. apply add_length. now rewrite times_length. Qed.

Lemma add_comm u : forall v, add u v = add v u.
Proof.
  induction u as [|a u IH]; intros [|b v]; rewrite ?add_cons, ?times_cons, ?add_cons; cbn [add]; auto.
  f_equal; [lia | apply IH].
Qed.

Lemma add_assoc u : forall v w, add u (add v w) = add (add u v) w.
Proof. induction u as [|a u IH]; intros [|b v] [|c w]; simpl; auto. f_equal; [lia | apply IH]. Qed.

Lemma add_injective u : forall v w, length u = length w -> length v = length w ->
  add u w = add v w -> u = v.
Proof.
  induction u as [|a u IH]; intros [|b v] [|c w] H1 H2 H; simpl in *; try discriminate; auto.
  injection H as Ha Hr. f_equal; [lia|]. apply (IH v w); auto.
Qed.

Lemma times_cons k a u : times k (a :: u) = k * a :: times k u.
Proof. reflexivity. Qed.
Lemma add_cons a b u v : add (a :: u) (b :: v) = a + b :: add u v.
Proof. reflexivity. Qed.

Lemma times_1 u : times 1 u = u.
Proof. induction u as [|a u IH]; rewrite ?times_cons, ?add_cons; auto. f_equal; auto; lia. Qed.

Lemma times_times j k u : times j (times k u) = times (j * k) u.
Proof. unfold times. rewrite map_map. apply map_ext. intros. lia. Qed.

Lemma add_times j k u : add (times j u) (times k u) = times (j + k) u.
Proof. induction u as [|a u IH]; rewrite ?times_cons, ?add_cons; auto. f_equal; auto; lia. Qed.

Lemma times_add k u : forall v, times k (add u v) = add (times k u) (times k v).
Proof.
  induction u as [|a u IH]; intros [|b v]; rewrite ?add_cons, ?times_cons, ?add_cons; cbn [add]; auto.
  f_equal; [lia | apply IH].
Qed.

Lemma add_times_0 z : forall u, length u = length z -> add z (times 0 u) = z.
Proof.
  induction z as [|a z IH]; intros [|b u] H; try discriminate; auto.
  rewrite times_cons, add_cons. injection H as H. f_equal; auto; lia.
Qed.

Lemma add_times_back z u k : length u = length z -> add (add z (times k u)) (times (- k) u) = z.
Proof.
  intros H. rewrite <- add_assoc, add_times. replace (k + - k) with 0 by lia. now apply add_times_0.
Qed.

Lemma firstn_add n : forall u v, firstn n (add u v) = add (firstn n u) (firstn n v).
Proof. induction n; intros [|a u] [|b v]; simpl; auto. f_equal. apply IHn. Qed.

Lemma firstn_times n k u : firstn n (times k u) = times k (firstn n u).
Proof. apply firstn_map. Qed.

Lemma firstn_sub n u v : firstn n (sub u v) = sub (firstn n u) (firstn n v).
Proof. unfold sub. now rewrite firstn_add, firstn_times. Qed.

Lemma skipn_add n : forall u v, length u = length v -> skipn n (add u v) = add (skipn n u) (skipn n v).
Proof.
  induction n; intros [|a u] [|b v] H; simpl in *; auto; discriminate.
Qed.

Lemma sum_add u : forall v, length u = length v -> sum (add u v) = sum u + sum v.
Proof.
  induction u as [|a u IH]; intros [|b v] H; simpl in *; try discriminate; auto.
  injection H as H. specialize (IH v H). unfold sum in *. simpl. lia.
Qed.

Lemma sum_app u v : sum (u ++ v) = sum u + sum v.
Proof. unfold sum. induction u; simpl; lia. Qed.

Lemma additive_times answer xs : additive answer -> answer (times (-1) xs) = - answer xs.
Proof.
  intros H.
  assert (answer (times 0 xs) = 0) as H0.
  { pose proof (H (times 0 xs) (times 0 xs) eq_refl) as D. rewrite add_times in D.
    change (0 + 0) with 0 in D. lia. }
  assert (length xs = length (times (-1) xs)) as L by (now rewrite times_length).
  specialize (H xs (times (-1) xs) L).
  rewrite <- (times_1 xs) in H at 1. rewrite add_times in H. change (1 + -1) with 0 in H. lia.
Qed.

Lemma additive_sub answer xs ys : additive answer -> length xs = length ys ->
  answer (sub xs ys) = answer xs - answer ys.
Proof.
  intros H L. unfold sub. rewrite H by (now rewrite times_length).
  rewrite additive_times by auto. lia.
Qed.

Lemma sum_additive : additive sum.
Proof. intros xs ys H. now apply sum_add. Qed.
